"""Processor time of a Panda's inverse dynamics, ns a sample: the kernel, mindyn.torch and mindyn.jax, and gradients.

python benchmarks/frameworks.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import jax
import numpy as np
import torch

import mindyn
import mindyn.jax
import mindyn.torch

SAMPLES = 100_000


def shortest(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(5):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times) / SAMPLES * 1e9


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    model = mindyn.compile_model(mindyn.load_robot("panda"))
    motion = np.random.default_rng(0).uniform(-1, 1, (3, SAMPLES, 7))
    by_jax, by_torch = mindyn.jax.differentiable(model), mindyn.torch.differentiable(model)
    arrays, tensors = [jax.numpy.asarray(x) for x in motion], [torch.tensor(x, requires_grad=True) for x in motion]
    jitted = jax.jit(by_jax.inverse_dynamics)
    gradient = jax.jit(jax.grad(lambda *x: (by_jax.inverse_dynamics(*x) ** 2).sum(), (0, 1, 2)))
    runs = {
        "kernel": lambda: model.inverse_dynamics(*motion),
        "torch": lambda: by_torch.inverse_dynamics(*tensors),
        "torch, with gradient": lambda: (by_torch.inverse_dynamics(*tensors) ** 2).sum().backward(),
        "jax": lambda: jitted(*arrays).block_until_ready(),
        "jax, with gradient": lambda: gradient(*arrays)[0].block_until_ready(),
    }
    for name, run in runs.items():
        print(f"{name:24}{shortest(run):8.0f} ns")


if __name__ == "__main__":
    main()
