"""Write what the GPU benchmark needs, on a machine with mindyn: `python benchmarks/gpu_prepare.py FOLDER`.

Then `python benchmarks/gpu.py FOLDER` on a machine with a GPU and CuPy; it needs nothing of mindyn but these files.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import numpy as np

import mindyn

FUNCTIONS = ("inverse_dynamics", "inertia_matrix", "forward_dynamics", "regressor")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    robot = mindyn.load_robot("puma560")
    model = mindyn.compile_model(robot)
    model.write_cuda(folder / "puma560.cu", FUNCTIONS)
    q, qd, qdd = np.random.default_rng(0).uniform(-2, 2, (3, 5000, 6))
    tau = model.inverse_dynamics(q, qd, qdd)
    results = {
        "inverse_dynamics": tau,
        "inertia_matrix": model.inertia_matrix(q),
        "forward_dynamics": model.forward_dynamics(q, qd, tau),
        "regressor": model.regressor(q, qd, qdd),
    }
    np.savez(folder / "puma560.npz", q=q, qd=qd, qdd=qdd, tau=tau, **{f"out_{k}": v for k, v in results.items()})


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
