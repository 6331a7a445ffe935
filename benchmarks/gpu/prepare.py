"""Write the files of the GPU benchmarks on a machine with mindyn: `python -m benchmarks.gpu.prepare FOLDER`.

Then run `PYTHONPATH=src python -m benchmarks.gpu.kernels FOLDER`, and `functions` and `frameworks` in the same way, on
a machine with a GPU. They need NumPy and CuPy, but no other dependency of mindyn.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import numpy as np

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.differentiable import DifferentiableFunction

CHECKED = ("inverse_dynamics", "forward_dynamics", "inertia_matrix", "regressor", "standard_regressor", "coriolis")
ROBOTS = {"puma560": CHECKED, "palletiser": CHECKED, "panda": CHECKED[:3], "stanford": CHECKED[:2]}
ROBOTS |= {"five_bar": CHECKED, "slider_crank": CHECKED[:4]}
FUNCTIONS = ("inverse_dynamics", "inertia_matrix", "forward_dynamics", "regressor")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    robot = mindyn.load_robot("puma560")
    model = mindyn.compile_model(robot)
    model.write_cuda(folder / "puma560.cu", FUNCTIONS)
    model.write_cuda(folder / "forward_dynamics.cu", ("forward_dynamics",))
    q, qd, qdd = np.random.default_rng(0).uniform(-2, 2, (3, 5000, 6))
    tau = model.inverse_dynamics(q, qd, qdd)
    results = {
        "inverse_dynamics": tau,
        "inertia_matrix": model.inertia_matrix(q),
        "forward_dynamics": model.forward_dynamics(q, qd, tau),
        "regressor": model.regressor(q, qd, qdd),
    }
    write_functions(folder)
    write_robots(folder / "robots")
    np.savez(folder / "puma560.npz", q=q, qd=qd, qdd=qdd, tau=tau, **{f"out_{k}": v for k, v in results.items()})


def write_robots(folder: Path) -> None:
    """Write CUDA code, random inputs and CPU results of every function of several robots, also with loops."""
    folder.mkdir(exist_ok=True)
    for label, names in ROBOTS.items():
        robot = mindyn.load_robot(label)
        model = mindyn.compile_model(robot, base=mindyn.base_parameters(robot) if robot.loops else None)
        for name in names:
            (described,) = model.describe_functions([name])
            shapes = [(array.name, array.shape) for array in described.program.inputs]
            inputs = [np.random.default_rng(5).uniform(-1, 1, (333, *shape)) for _, shape in shapes]
            if shapes[0][1][0] > robot.joint_count:  # loops that kernels solve for
                inputs[0] = closed_positions(robot, len(inputs[0]))
            condition = np.linalg.cond(model.inertia_matrix(inputs[0])).max() if name == "forward_dynamics" else 1.0
            result = model.kernel(name)(*inputs)
            about = {"inputs": shapes, "outputs": [output.shape for output in described.program.outputs], "name": name}
            at = folder / f"{label}_{name}"
            at.with_suffix(".cu").write_text(cuda_source([described], model.title()))
            at.with_suffix(".json").write_text(json.dumps(about))
            given = {f"in{k}": array for k, array in enumerate(inputs)}
            np.savez(at.with_suffix(".npz"), result=result, condition=condition, **given)


def closed_positions(robot: mindyn.Robot, count: int) -> np.ndarray:
    """Return positions (count, n) near home with dependent joints slightly off; kernels close the loops."""
    closure = home_closure(robot)
    primary = closure.home[list(closure.primary)] + np.random.default_rng(6).uniform(-0.1, 0.1, (count, 1))
    q = closure.along(primary)
    q[:, list(closure.dependent)] += 1e-7
    return q


def write_functions(folder: Path) -> None:
    """Write inverse dynamics with phi as input, and its adjoint, for the frameworks."""
    robot = mindyn.load_robot("puma560")
    op = DifferentiableFunction(mindyn.compile_model(robot, parameters="input").casadi("inverse_dynamics"))
    phi = frozenset(["phi"])
    rng = np.random.default_rng(5)
    q, qd, qdd, along = rng.uniform(-1, 1, (4, 500, 6))
    arrays = {"q": q, "qd": qd, "qdd": qdd, "phi": robot.phi, "V0_tau": along}
    for item, given in ((op, arrays), (op.adjoint, arrays)):
        shapes = {"inputs": list(zip(item.input_names, item.input_shapes, strict=True)), "outputs": item.output_shapes}
        (folder / f"{item.name}.cu").write_text(cuda_source([item.describe()], item.name, sorted(phi)))
        (folder / f"{item.name}.json").write_text(json.dumps(shapes))
        results = item.run(*(given[name] for name in item.input_names))
        np.savez(folder / f"{item.name}.npz", **given, **{f"out{k}": result for k, result in enumerate(results)})


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
