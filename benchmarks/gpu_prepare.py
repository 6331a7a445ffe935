"""Write what the GPU benchmark needs, on a machine with mindyn: `python benchmarks/gpu_prepare.py FOLDER`.

Then `python benchmarks/gpu.py FOLDER`, `gpu_identification.py FOLDER` and `gpu_frameworks.py FOLDER` on a machine with
a GPU and CuPy; they need nothing of mindyn but these files.
"""

from __future__ import annotations

import json
import shutil
from argparse import ArgumentParser
from pathlib import Path

import numpy as np

import mindyn
from mindyn.kernels import device
from mindyn.kernels.differentiable import Op
from mindyn.regression.device_job import write_device_job
from mindyn.regression.gathering import gather
from mindyn.regression.information import solve
from mindyn.regression.regressor import Regressor, with_estimated_drives

ROWS = 20_000
NOISE = 0.1
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
    write_rows_job(folder)
    write_functions(folder)
    np.savez(folder / "puma560.npz", q=q, qd=qd, qdd=qdd, tau=tau, **{f"out_{k}": v for k, v in results.items()})


def write_rows_job(folder: Path) -> None:
    """A PUMA 560 with estimated drives: the job, samples, and what the CPU makes of them."""
    robot = mindyn.load_robot("puma560")
    regressor = Regressor(with_estimated_drives(robot))
    rng = np.random.default_rng(3)
    q, qd, qdd = rng.uniform(-2, 2, (3, ROWS, regressor.joint_count))
    beta = rng.uniform(0.5, 2.0, regressor.count)
    Y = regressor.dense(regressor.parts(q, qd, qdd))
    tau = Y @ beta + rng.normal(0, NOISE, q.shape)
    write_device_job(robot, folder / "rows")
    samples = mindyn.Samples(regressor.joint_names, q, qd, qdd, tau, 100.0, np.zeros(ROWS, int))
    expected = gather(regressor, samples)
    solution = solve(*expected.stacked())
    columns = {f"columns{k}": columns for k, columns in enumerate(expected.columns)}
    np.savez(
        folder / "rows.npz",
        **{"q": q, "qd": qd, "qdd": qdd, "tau": tau, "beta": beta, "found": solution.beta, "noise": NOISE},
        **{"deviations": NOISE * np.sqrt(np.diag(solution.inverse)), "predicted": Y @ solution.beta},
        **columns,
    )


def write_functions(folder: Path) -> None:
    """Inverse dynamics with phi as an input, and its adjoint, for the frameworks' own arrays."""
    robot = mindyn.load_robot("puma560")
    op = Op(mindyn.compile_model(robot, parameters="input").casadi("inverse_dynamics"))
    phi = frozenset(["phi"])
    rng = np.random.default_rng(5)
    q, qd, qdd, along = rng.uniform(-1, 1, (4, 500, 6))
    arrays = {"q": q, "qd": qd, "qdd": qdd, "phi": robot.phi, "V0_tau": along}
    for one, given in ((op, arrays), (op.adjoint, arrays)):
        shapes = {"inputs": list(zip(one.input_names, one.input_shapes, strict=True)), "outputs": one.output_shapes}
        (folder / f"{one.name}.cu").write_text(one.device_source(phi))
        (folder / f"{one.name}.json").write_text(json.dumps(shapes))
        results = one.run(*(given[name] for name in one.input_names))
        np.savez(folder / f"{one.name}.npz", **given, **{f"out{k}": result for k, result in enumerate(results)})
    shutil.copy(device.__file__, folder / "device_function.py")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
