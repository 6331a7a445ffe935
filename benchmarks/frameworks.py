"""Inverse dynamics of a Panda as differentiable functions, processor time of a sample: mindyn, frax and MJX.

    python benchmarks/frameworks.py [--mjx] [--record]

Peers are those that are installed (`pip install frax mujoco-mjx`), set as their documentation recommends for a CPU;
batches are as large as suits each.
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = (
    "--xla_cpu_multi_thread_eigen=false --xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
)
os.environ["JAX_ENABLE_X64"] = "1"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import torch
from sections import Section, arguments, publish

import mindyn
import mindyn.jax
import mindyn.torch

LARGEST = 100_000
BATCHES = {"mindyn.jax": (LARGEST,), "frax": (256, 2048), "MJX": (1024,)}
GRADIENTS = ("mindyn.jax", "frax")
"""MJX took more than five minutes to compile its gradients, and was not waited for."""
REPETITIONS = 3


def shortest(run: Callable[[], object], samples: int) -> float:
    """ns of processor time for a sample."""
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
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        mindyn.write_mjcf(robot, Path(folder) / "panda.xml", force=True)
        model = mujoco.MjModel.from_xml_path(str(Path(folder) / "panda.xml"))
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    moved = mjx.put_model(model)
    data = mjx.make_data(moved)

    def inverse(q, qd, qdd):
        return mjx.inverse(moved, data.replace(qpos=q, qvel=qd, qacc=qdd)).qfrc_inverse

    return inverse


def measured(function, data, batches) -> float:
    """ns of a sample at the best batch."""
    times = []
    for size in batches:
        motion = [jax.numpy.asarray(part[:size]) for part in data]
        times.append(shortest(lambda motion=motion: jax.block_until_ready(function(*motion)), size))
    return min(times)


def by_torch(model, data) -> tuple[float, float]:
    dynamics, size = mindyn.torch.differentiable(model), LARGEST
    tensors = [torch.tensor(part, requires_grad=True) for part in data]
    backward = lambda: (dynamics.inverse_dynamics(*tensors) ** 2).sum().backward()  # noqa: E731
    return shortest(lambda: dynamics.inverse_dynamics(*tensors), size), shortest(backward, size)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--mjx", action="store_true", help="measure MJX too, which takes minutes to compile")
    options = parser.parse_args()
    torch.set_num_threads(1)
    robot = mindyn.load_robot("panda")
    model = mindyn.compile_model(robot)
    data = np.random.default_rng(0).uniform(-1, 1, (3, LARGEST, 7))
    ours = mindyn.jax.differentiable(model).inverse_dynamics
    peers = {"frax": frax_peer()} | ({"MJX": mjx_peer(robot)} if options.mjx else {})
    sides = {"mindyn.torch": by_torch(model, data)}
    functions = {"mindyn.jax": ours} | {name: jax.vmap(peer) for name, peer in peers.items() if peer is not None}
    for name, function in functions.items():
        gradient = jax.jit(jax.grad(lambda *x, f=function: (f(*x) ** 2).sum(), (0, 1, 2)))
        plain = measured(jax.jit(function), data, BATCHES[name])
        sides[name] = (plain, measured(gradient, data, BATCHES[name]) if name in GRADIENTS else float("inf"))
        print(name, *(f"{one:.0f} ns" for one in sides[name]), file=sys.stderr, flush=True)
    kernel = shortest(lambda: model.inverse_dynamics(*data), LARGEST)
    theirs = [sides[name] for name in peers if name in sides]
    best = [min(one[k] for one in theirs) if theirs else float("nan") for k in range(2)]
    lines = [("function of", "torques", "the best peer takes", "with gradients", "the best peer takes")]
    for name in ("mindyn.torch", "mindyn.jax", *(name for name in peers if name in sides)):
        ratios = [f"{best[k] / sides[name][k]:.1f}x" if name.startswith("mindyn") else "" for k in range(2)]
        times = [f"{one:.0f} ns" if np.isfinite(one) else "" for one in sides[name]]
        lines.append((name, times[0], ratios[0], times[1], ratios[1]))
    absent = [name for name, peer in peers.items() if peer is None]
    publish(
        Section(
            "frameworks",
            "Differentiable functions beside frax and MJX",
            "python benchmarks/frameworks.py",
            f"JAX {jax.__version__}, PyTorch {torch.__version__}",
            [
                "Inverse dynamics of a Panda in float64 and the gradients of its squared torques by q, qd and qdd: "
                "processor time of a sample, ours in batches of 100 000, frax's of 256 or 2 048, whichever is faster. "
                + ("MJX's of 1 024. " if options.mjx else "MJX (`--mjx`) had not compiled after two minutes. ")
                + f"The kernel itself takes {kernel:.0f} ns. "
                + (f"Not installed: {', '.join(absent)}." if absent else "")
            ],
            lines,
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
