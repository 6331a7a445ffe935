"""Run generated CUDA on PyTorch tensors and JAX arrays through DLPack; compare with the CPU, measure throughput.

`python -m benchmarks.gpu.frameworks FOLDER`, with the files that `prepare.py` wrote. It needs CuPy; PyTorch and JAX are
skipped with a message if they are not installed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cupy
import numpy as np

from mindyn.kernels.device import DeviceFunction

SAMPLES = 1 << 22


def load_kernel(folder: Path, name: str):
    shapes = json.loads((folder / f"{name}.json").read_text())
    source = (folder / f"{name}.cu").read_text()
    inputs = [(called, tuple(shape)) for called, shape in shapes["inputs"]]
    return DeviceFunction(cupy, lambda _: source, name, inputs, shapes["outputs"])


def check_function(function, data, array, host, kind) -> None:
    given = [array(data[name]) for name, _ in function.inputs]
    results = function(*given)
    results = results if isinstance(results, tuple) else (results,)
    for k, result in enumerate(results):
        assert type(result).__module__.startswith(kind), type(result)
        expected = data[f"out{k}"]
        error = np.abs(host(result) - expected).max() / np.abs(expected).max()
        assert error < 1e-12, f"{function.name} output {k}: {error:.1e}"


def check_torch(folder: Path, forward, backward) -> None:
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: not run")
        return
    tensor = lambda values: torch.tensor(values, device="cuda")  # noqa: E731
    for function in (forward, backward):
        data = np.load(folder / f"{function.name}.npz")
        check_function(function, data, tensor, lambda entry: entry.cpu().numpy(), "torch")

    class Torques(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            ctx.save_for_backward(*given)
            return forward(*given)

        @staticmethod
        def backward(ctx, along):
            return (*backward(*ctx.saved_tensors, along)[:-1], None)

    data = np.load(folder / f"{forward.name}.npz")
    motion = [tensor(data[name]).requires_grad_() for name in ("q", "qd", "qdd")]
    phi = tensor(data["phi"])
    few = [item[:3].detach().requires_grad_() for item in motion]
    assert torch.autograd.gradcheck(lambda *x: Torques.apply(*x, phi), few)
    large = [torch.rand(SAMPLES, 6, device="cuda", dtype=torch.float64, requires_grad=True) for _ in range(3)]
    times = []
    for _ in range(5):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        Torques.apply(*large, phi).square().sum().backward()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    rate = SAMPLES / min(times) / 1e9
    print(f"PyTorch {torch.__version__}: gradcheck passes; {rate:.2f}e9 torques with gradients per second")


def check_jax(folder: Path, forward, backward) -> None:
    try:
        import jax
    except ImportError:
        print("JAX is not installed: not run")
        return
    jax.config.update("jax_enable_x64", True)
    for function in (forward, backward):
        data = np.load(folder / f"{function.name}.npz")
        check_function(function, data, jax.numpy.asarray, np.asarray, "jax")
    print(f"JAX {jax.__version__}: arrays in and out through DLPack")


def main(folder: Path) -> None:
    forward, backward = (load_kernel(folder, name) for name in ("inverse_dynamics", "inverse_dynamics_adjoint"))
    data = np.load(folder / "inverse_dynamics.npz")
    check_function(forward, data, cupy.asarray, cupy.asnumpy, "cupy")
    print(f"CuPy {cupy.__version__}: agrees with the CPU")
    check_torch(folder, forward, backward)
    check_jax(folder, forward, backward)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
