"""Compare differentiable inverse dynamics of a Panda in mindyn, frax and MJX: processor time per sample.

    python -m benchmarks.kernels.frameworks [--mjx] [--record]

Peers must be installed (`pip install frax mujoco-mjx`). Each runs with its best settings: the best batch size, frax
with the XLA settings that its documentation recommends for a CPU, MJX in its own process without XLA's fusion emitters,
with which it took 12 ms instead of 7 us per sample, and only its recursion (`mjx.inverse` does more).
"""

from __future__ import annotations

import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false --xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
)
os.environ["JAX_ENABLE_X64"] = "1"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import torch

import mindyn
import mindyn.kernels.jax
import mindyn.kernels.torch
from benchmarks.sections import Section, arguments, publish

MJX_FLAGS = "--xla_cpu_multi_thread_eigen=false --xla_cpu_use_fusion_emitters=false"
LARGEST = 100_000
BATCHES = {"mindyn.kernels.jax": (LARGEST,), "frax": (256, 2048), "MJX": (1024,)}
REPETITIONS = 3


def measure_ns(run: Callable[[], object], samples: int) -> float:
    """Return the processor time per sample, ns."""
    run()
    times = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times) / samples * 1e9


def frax_peer() -> Callable[..., object] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import frax
    except ImportError:
        return None
    robot, gravity = frax.load_panda(), jax.numpy.array([0, 0, 0, 0, 0, -9.81])
    return lambda q, qd, qdd: robot.rnea(q, qd, qdd, gravity, None)


def mjx_peer(robot) -> Callable[..., object] | None:
    try:
        import mujoco
        from mujoco import mjx
        from mujoco.mjx._src import smooth
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        mindyn.write_mjcf(robot, Path(folder) / "panda.xml", force=True)
        model = mujoco.MjModel.from_xml_path(str(Path(folder) / "panda.xml"))
    moved = mjx.put_model(model)
    data = mjx.make_data(moved)

    def inverse(q, qd, qdd):
        state = data.replace(qpos=q, qvel=qd, qacc=qdd)
        for step in (smooth.kinematics, smooth.com_pos, smooth.com_vel):
            state = step(moved, state)
        return smooth.rne(moved, state, flg_acc=True).qfrc_bias

    return inverse


def run_mjx() -> float | None:
    """Return the time per sample of MJX, ns, from a process with its own XLA settings; None if it is not installed."""
    command = [sys.executable, "-m", __spec__.name, "--mjx-alone"]
    process = subprocess.run(
        command, env={**os.environ, "XLA_FLAGS": MJX_FLAGS}, capture_output=True, text=True, check=True
    )
    words = process.stdout.split()  # others talk there too
    return float(words[-1]) if words and words[-1][0].isdigit() else None


def print_mjx(data) -> None:
    """Print the time at the best batch for `run_mjx`, after comparing the torques with ours."""
    robot = mindyn.load_robot("panda")
    peer = mjx_peer(robot)
    if peer is None:
        return
    function, few = jax.jit(jax.vmap(peer)), [part[:1024] for part in data]
    expected = mindyn.compile_model(robot).inverse_dynamics(*few)
    assert np.abs(np.asarray(function(*few)) - expected).max() < 1e-9 * np.abs(expected).max()
    print(measure_best_batch(function, data, BATCHES["MJX"]))


def measure_best_batch(function, data, batches) -> float:
    """Return the time per sample at the best batch, ns."""
    times = []
    for size in batches:
        motion = [jax.numpy.asarray(part[:size]) for part in data]
        times.append(measure_ns(lambda motion=motion: jax.block_until_ready(function(*motion)), size))
    return min(times)


def by_torch(model, data) -> tuple[float, float]:
    dynamics, size = mindyn.kernels.torch.make_differentiable(model), LARGEST
    tensors = [torch.tensor(part, requires_grad=True) for part in data]
    backward = lambda: (dynamics.inverse_dynamics(*tensors) ** 2).sum().backward()  # noqa: E731
    return measure_ns(lambda: dynamics.inverse_dynamics(*tensors), size), measure_ns(backward, size)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--mjx", action="store_true", help="measure MJX too, which takes a minute to compile")
    parser.add_argument("--mjx-alone", action="store_true", help="print the time of MJX, and nothing else")
    options = parser.parse_args()
    data = np.random.default_rng(0).uniform(-1, 1, (3, LARGEST, 7))
    if options.mjx_alone:
        print_mjx(data)
        return
    torch.set_num_threads(1)
    robot = mindyn.load_robot("panda")
    model = mindyn.compile_model(robot)
    ours = mindyn.kernels.jax.make_differentiable(model).inverse_dynamics
    peers = {"frax": frax_peer()}
    sides = {"mindyn.kernels.torch": by_torch(model, data)}
    functions = {"mindyn.kernels.jax": ours} | {
        name: jax.vmap(peer) for name, peer in peers.items() if peer is not None
    }
    for name, function in functions.items():
        gradient = jax.jit(jax.grad(lambda *x, f=function: (f(*x) ** 2).sum(), (0, 1, 2)))
        plain = measure_best_batch(jax.jit(function), data, BATCHES[name])
        sides[name] = (plain, measure_best_batch(gradient, data, BATCHES[name]))
        print(name, *(f"{side:.0f} ns" for side in sides[name]), file=sys.stderr, flush=True)
    if options.mjx:
        peers["MJX"] = result = run_mjx()
        if result is not None:
            sides["MJX"] = (result, float("inf"))
    kernel = measure_ns(lambda: model.inverse_dynamics(*data), LARGEST)
    theirs = [sides[name] for name in peers if name in sides]
    best = [min(their[k] for their in theirs) if theirs else float("nan") for k in range(2)]
    lines = [("function of", "torques", "fastest other / mindyn", "with gradients", "fastest other / mindyn")]
    for name in ("mindyn.kernels.torch", "mindyn.kernels.jax", *(name for name in peers if name in sides)):
        ratios = [f"{best[k] / sides[name][k]:.1f}x" if name.startswith("mindyn") else "" for k in range(2)]
        times = [f"{side:.0f} ns" if np.isfinite(side) else "" for side in sides[name]]
        lines.append((name, times[0], ratios[0], times[1], ratios[1]))
    absent = [name for name, peer in peers.items() if peer is None]
    publish(
        Section(
            "frameworks",
            "Differentiable functions compared with frax and MJX",
            "python -m benchmarks.kernels.frameworks --mjx"
            if options.mjx
            else "python -m benchmarks.kernels.frameworks",
            f"JAX {jax.__version__}, PyTorch {torch.__version__}",
            [
                "Inverse dynamics of a Panda in float64 and the gradients of its squared torques with respect to q, "
                "qd and qdd: processor time of a sample, mindyn in batches of 100 000, frax in batches of 256 or 2 "
                "048, whichever is faster"
                + (", MJX in batches of 1 024; its gradients were not compiled. " if options.mjx else ". ")
                + f"The kernel itself takes {kernel:.0f} ns. "
                + (f"Not installed: {', '.join(absent)}." if absent else "")
            ],
            lines,
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
