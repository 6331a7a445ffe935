"""Compare `mindyn.kernels.torch`, `mindyn.kernels.jax` and `GpuModel` on a GPU with the CPU, and measure their speed.

`python -m benchmarks.gpu.bridges [--record]` on a machine with mindyn and CuPy; PyTorch and JAX are skipped with a
message if they are not installed.
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["JAX_ENABLE_X64"] = "1"

import time

import cupy
import numpy as np

import mindyn
from benchmarks.sections import Section, arguments, publish, spaced

SAMPLES = 1 << 22
CLOSE = 1e-12
REPETITIONS = 5


def require_close(result, expected) -> float:
    """Return the largest difference relative to the largest number; raise if it is not small."""
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    assert error < CLOSE, error
    return error


def measure_rate(run, ready) -> float:
    """Return the samples per second of the fastest of several runs."""
    ready(run())
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        ready(run())
        times.append(time.perf_counter() - start)
    return SAMPLES / min(times)


def draw_data(robot, count=500):
    return np.random.default_rng(5).uniform(-1, 1, (3, count, robot.joint_count))


def measure_torch(model):
    """Return (version, samples per second without and with gradients); None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    import mindyn.kernels.torch

    dynamics, data, phi = mindyn.kernels.torch.make_differentiable(model), draw_data(model.robot), model.robot.phi
    given = [torch.tensor(item, device="cuda") for item in (*data, phi)]
    expected = mindyn.kernels.torch.make_differentiable(model)
    for name, arrays in {
        "inverse_dynamics": given,
        "forward_dynamics": given,
        "energy": [*given[:2], given[3]],
    }.items():
        result = dynamics(name, *arrays)
        assert result.is_cuda
        require_close(result.cpu().numpy(), expected(name, *(array.cpu() for array in arrays)).numpy())
    few = [item[:3].detach().requires_grad_() for item in given[:3]] + [given[3].detach().requires_grad_()]
    assert torch.autograd.gradcheck(dynamics.inverse_dynamics, few)
    mapped = torch.func.vmap(dynamics.inverse_dynamics, (0, 0, 0, None))(*given)
    require_close(mapped.cpu().numpy(), dynamics.inverse_dynamics(*given).cpu().numpy())
    n = model.robot.joint_count
    large = [torch.rand(SAMPLES, n, device="cuda", dtype=torch.float64, requires_grad=True) for _ in range(3)]
    pool = cupy.get_default_memory_pool()
    before = torch.cuda.memory_allocated(), pool.used_bytes()
    tau = dynamics.inverse_dynamics(*large, given[3])
    new = torch.cuda.memory_allocated() - before[0] + pool.used_bytes() - before[1]
    assert new <= tau.nbytes + (1 << 20), f"{new} bytes for a result of {tau.nbytes}: something was copied"
    del tau
    ready = lambda _: torch.cuda.synchronize()  # noqa: E731
    with torch.no_grad():
        plain = measure_rate(lambda: dynamics.inverse_dynamics(*large, given[3]), ready)
    return (
        f"PyTorch {torch.__version__}",
        plain,
        measure_rate(lambda: dynamics.inverse_dynamics(*large, given[3]).square().sum().backward(), ready),
    )


def measure_jax(model):
    """Return (version, samples per second without and with gradients); None without JAX or without its GPU."""
    try:
        import jax
    except ImportError:
        return None
    if jax.default_backend() != "gpu":
        return None
    from jax.test_util import check_grads

    import mindyn.kernels.jax

    dynamics, data, phi = mindyn.kernels.jax.make_differentiable(model), draw_data(model.robot), model.robot.phi
    given = [jax.numpy.asarray(item) for item in (*data, phi)]
    host = [jax.device_put(item, jax.devices("cpu")[0]) for item in given]
    for name, places in {
        "inverse_dynamics": (0, 1, 2, 3),
        "forward_dynamics": (0, 1, 2, 3),
        "energy": (0, 1, 3),
    }.items():
        result = dynamics(name, *(given[k] for k in places))
        assert result.devices() == given[0].devices()
        require_close(np.asarray(result), np.asarray(dynamics(name, *(host[k] for k in places))))
    torques = jax.jit(dynamics.inverse_dynamics)
    check_grads(torques, [*(item[:3] for item in given[:3]), given[3]], order=2, modes=["rev"], atol=1e-5, rtol=1e-5)
    mapped = jax.jit(jax.vmap(dynamics.inverse_dynamics, (0, 0, 0, None)))(*given)
    require_close(np.asarray(mapped), np.asarray(torques(*given)))
    text = torques.lower(*given).compile().as_text()
    assert "mindyn_inverse_dynamics" in text
    assert "python_gpu_callback" not in text
    keys = jax.random.split(jax.random.key(0), 3)
    large = [jax.random.uniform(key, (SAMPLES, model.robot.joint_count), np.float64) for key in keys]
    gradient = jax.jit(jax.grad(lambda *x: (dynamics.inverse_dynamics(*x, given[3]) ** 2).sum(), (0, 1, 2)))
    ready = jax.block_until_ready
    return (
        f"JAX {jax.__version__}",
        measure_rate(lambda: torques(*large, given[3]), ready),
        measure_rate(lambda: gradient(*large), ready),
    )


def measure_cupy(robot):
    model = mindyn.compile_model(robot)
    gpu, data = model.to_gpu(), draw_data(robot)
    require_close(gpu("inverse_dynamics", *map(cupy.asarray, data)).get(), model.inverse_dynamics(*data))
    large = [cupy.random.rand(SAMPLES, robot.joint_count) for _ in range(3)]
    out = cupy.empty_like(large[0])
    ready = lambda _: cupy.cuda.Device().synchronize()  # noqa: E731
    return f"CuPy {cupy.__version__}", measure_rate(lambda: gpu("inverse_dynamics", *large, out=out), ready), None


def main() -> None:
    options = arguments(__doc__).parse_args()
    robot = mindyn.load_robot("puma560")
    model = mindyn.compile_model(robot, parameters="input")
    sides = {
        "GpuModel": measure_cupy(robot),
        "mindyn.kernels.torch": measure_torch(model),
        "mindyn.kernels.jax": measure_jax(model),
    }
    lines = [("", "arrays", "evaluations per second", "with gradients")]
    for name, side in sides.items():
        if side is not None:
            lines.append((name, side[0], *("" if item is None else f"{item / 1e9:.2f}e9" for item in side[1:])))
    absent = [name for name, side in sides.items() if side is None]
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    publish(
        Section(
            "gpu_bridges",
            "Frameworks on one GPU",
            "python -m benchmarks.gpu.bridges",
            device,
            [
                f"Inverse dynamics of a PUMA 560 in float64, {spaced(SAMPLES)} samples on the device, and gradients "
                "of its squared torques with respect to q, qd and qdd. PyTorch and JAX call our CUDA on their own "
                "memory and stream, without copies; the numbers agree with the CPU to 1e-12; gradcheck, second-order "
                "check_grads, vmap "
                "and jit pass. " + (f"Not there: {', '.join(absent)}." if absent else "")
            ],
            lines,
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
