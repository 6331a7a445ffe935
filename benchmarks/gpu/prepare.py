"""Write what the GPU benchmark needs, on a machine with mindyn: `python -m benchmarks.gpu.prepare FOLDER`.

Then `python -m benchmarks.gpu.kernels FOLDER`, and `functions`, `identification` and `frameworks` of
the same folder likewise, on a machine with a GPU and CuPy; they need nothing of mindyn but these files.
"""

from __future__ import annotations

import json
import shutil
from argparse import ArgumentParser
from pathlib import Path

import numpy as np

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.kernels import device as functions
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.differentiable import DifferentiableFunction
from mindyn.logs.filters import extension_rows, second_order_sections, settling_rows
from mindyn.regression import device
from mindyn.regression.device_job import write_device_job
from mindyn.regression.device_rows import rows_source
from mindyn.regression.friction import Friction
from mindyn.regression.information import solve
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import SampleSegment, gather, windows

ROWS = 20_000
NOISE = 0.1
FILTERED_ROWS = 40_000
RATE_HZ, FILTER_HZ, DECIMATION = 500.0, 10.0, 6
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
    write_rows_job(folder)
    write_functions(folder)
    write_robots(folder / "robots")
    write_filtered_rows(folder)
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


def write_robots(folder: Path) -> None:
    """Every function of several robots, loops among them: CUDA, random inputs, what the CPU makes of them."""
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
            at.with_suffix(".cu").write_text(cuda_source([described], model.title(), model.shared))
            at.with_suffix(".json").write_text(json.dumps(about))
            given = {f"in{k}": array for k, array in enumerate(inputs)}
            np.savez(at.with_suffix(".npz"), result=result, condition=condition, **given)


def closed_positions(robot: mindyn.Robot, count: int) -> np.ndarray:
    """Positions (count, n) near home, dependent joints a little off: kernels close the loops."""
    closure = home_closure(robot)
    primary = closure.home[list(closure.primary)] + np.random.default_rng(6).uniform(-0.1, 0.1, (count, 1))
    q = closure.along(primary)
    q[:, list(closure.dependent)] += 1e-7
    return q


def write_filtered_rows(folder: Path) -> None:
    """Write a motion of two segments, slow rows masked, friction with a memory and a load, and the CPU's fit of it."""
    robot, rng = with_estimated_drives(mindyn.load_robot("puma560")), np.random.default_rng(7)
    friction = Friction("stop", 0.01, ("load", "stribeck"), (), tuple(rng.uniform(0.5, 2.0, Regressor(robot).count)))
    regressor = Regressor(robot, friction)
    t, w = np.arange(FILTERED_ROWS)[:, None, None] / RATE_HZ, rng.uniform(1, 8, (4, regressor.joint_count))
    a, phase = rng.uniform(0.1, 0.3, w.shape), rng.uniform(0, 6, w.shape)
    q, qd, qdd = ((a * w**k * np.sin(t * w + phase + k * np.pi / 2)).sum(axis=1) for k in range(3))
    segments = (np.arange(len(q)) > len(q) // 3).astype(np.int64)
    s = regressor.directions(q, qd, segments, RATE_HZ)
    Y = regressor.dense(regressor.parts(q, qd, qdd, s))
    tau = Y @ rng.uniform(0.5, 2.0, regressor.count) + rng.normal(0, NOISE, q.shape)
    usable = np.abs(qd) > 0.05
    samples = mindyn.Samples(regressor.joint_names, q, qd, qdd, tau, RATE_HZ, segments, usable)
    settings = mindyn.EquationSettings(filter_hz=FILTER_HZ, decimation=DECIMATION, friction=friction)
    expected = gather(regressor, samples, cutoff_hz=FILTER_HZ, decimation=DECIMATION)
    solution = solve(*expected.stacked())
    taken = windows(SampleSegment(samples, range(len(samples))), settings.cutoff_hz, settings.step)
    kept = [(item.first, item.last, item.kept_rows.start, item.kept_rows.stop, item.kept_rows.step) for item in taken]
    (folder / "filtered.cu").write_text(rows_source(regressor))
    np.savez(
        folder / "filtered.npz",
        **{"q": q, "qd": qd, "qdd": qdd, "tau": tau, "s": s, "usable": usable, "windows": np.array(kept)},
        **{"found": solution.beta, "deviations": NOISE * np.sqrt(np.diag(solution.inverse))},
        **{"counts": np.array(expected.counts), "predicted": (Y @ solution.beta)[::50], "rows": Y[::50]},
        **{f"columns{k}": columns for k, columns in enumerate(expected.columns)},
        **{"table": device.smoothing_table(*second_order_sections(FILTER_HZ, RATE_HZ))},
        **{"mirrored": extension_rows(FILTER_HZ, RATE_HZ), "reach": settling_rows(FILTER_HZ, RATE_HZ)},
    )


def write_functions(folder: Path) -> None:
    """Inverse dynamics with phi as an input, and its adjoint, for the frameworks' own arrays."""
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
    shutil.copy(functions.__file__, folder / "device_function.py")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
