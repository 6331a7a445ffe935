"""Rows for a GPU: those of a robot as one CUDA kernel, gathered here (`rows_on_gpu`) or on another machine
(`write_device_job`, then `rows_of_factors`); `device` does the work there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import casadi
import numpy as np

from mindyn.algebra.values import Array
from mindyn.equations.drives import SYMBOLIC_FUNCTIONS
from mindyn.errors import InputError, RobotError
from mindyn.files import write_whole_folder
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.gpu import import_cupy
from mindyn.kernels.program import Input, Instruction, Op, Output, Program
from mindyn.kernels.source_text import Described
from mindyn.kernels.tracing import trace
from mindyn.logs.samples import Samples
from mindyn.regression import device
from mindyn.regression.gathering import require_enough, require_joints
from mindyn.regression.information import Information
from mindyn.regression.regressor import Regressor, regressor_of, with_estimated_drives
from mindyn.regression.rows import Rows
from mindyn.regression.treatment import Treatment
from mindyn.robots.friction_laws import FRICTION_LAWS
from mindyn.robots.robot import Robot

MOTION: Final = ("q", "qd", "qdd", "tau")


def gather_on_gpu(regressor: Regressor, samples: Samples) -> Information:
    """The R factors of all rows, computed on a GPU through CuPy; what `gather` has without filter and decimation."""
    cupy = import_cupy()
    _require_plain(samples)
    rows_of = device.kernel_rows(cupy, rows_source(regressor), widths_of(regressor))
    return _gathered(cupy, rows_of, regressor, samples)


def rows_on_gpu(robot: Robot, samples: Samples, treatment: Treatment) -> Rows:
    """The equations of samples, gathered on a GPU: `LeastSquares().fit(rows_on_gpu(robot, samples, treatment))`.

    Of a treatment without filter, decimation, conditioning and stop operators, which need the log's order.
    """
    regressor = _regressor(robot, treatment)
    return Rows.of_information(regressor, gather_on_gpu(regressor, samples), treatment)


def _regressor(robot: Robot, treatment: Treatment) -> Regressor:
    if treatment.cutoff_hz is not None or treatment.step != 1:
        raise InputError(
            "a filter on the columns (filter_hz) and decimation are not made on a GPU",
            hint="condition the samples instead, with a cut-off on motion and torque",
        )
    return regressor_of(with_estimated_drives(robot) if treatment.drives == "estimated" else robot, treatment)


def gather_on_host(regressor: Regressor, samples: Samples, chunk_rows: int = device.CHUNK_ROWS) -> Information:
    """The same by the same steps on the CPU, for comparison."""

    def rows_of(q: Array, qd: Array, qdd: Array, tau: Array) -> list[Array]:
        directions = regressor.directions(q, qd, np.zeros(len(qd), np.int64), samples.rate_hz)
        parts = regressor.parts(q, qd, qdd, directions)
        return [np.hstack([*arrays, tau[:, joint : joint + 1]]) for joint, arrays in enumerate(parts)]

    _require_plain(samples)
    return _gathered(np, rows_of, regressor, samples, chunk_rows)


def write_device_job(robot: Robot, folder: str | Path, treatment: Treatment | None = None) -> None:
    """Write what a GPU machine with NumPy and CuPy alone gathers rows with: kernel, shapes and `device.py`.

    There `python FOLDER/device.py FOLDER samples.npz factors.npz` takes q, qd, qdd, tau (N, n) to the R factors that
    `rows_of_factors` reads.
    """
    regressor = _regressor(robot, treatment or Treatment())
    files = {
        "rows.cu": rows_source(regressor),
        "rows.json": json.dumps({"widths": widths_of(regressor), "joints": list(regressor.joint_names)}),
        "device.py": Path(device.__file__).read_text(encoding="utf-8"),
    }
    write_whole_folder(folder, files)


def rows_of_factors(robot: Robot, factors: str | Path, treatment: Treatment | None = None) -> Rows:
    """The equations whose R factors a device job wrote into a file, with the same robot and treatment."""
    regressor, how = _regressor(robot, treatment or Treatment()), treatment or Treatment()
    try:
        with np.load(factors) as given:
            found, count = [given[f"R{k}"] for k in range(regressor.joint_count)], int(given["rows"])
    except (OSError, KeyError, ValueError) as problem:
        raise InputError(f"{factors} holds no factors of a device job: {problem}") from problem
    return Rows.of_information(regressor, information_of_factors(regressor, found, count), how)


def information_of_factors(regressor: Regressor, factors: list[Array], rows: int) -> Information:
    """The R factors that a device job brought back, as what estimators take (`Rows.of_information`)."""
    for joint, (R, width) in enumerate(zip(factors, widths_of(regressor), strict=True)):
        if R.shape != (width, width) or not np.isfinite(R).all():
            raise InputError(
                f"the factor of joint {regressor.joint_names[joint]!r} has shape {R.shape} or is not finite; "
                f"({width}, {width}) of finite numbers is needed",
                hint="the job was written for another robot or friction, or its samples were not finite",
            )
    counts = (int(rows),) * len(factors)
    return Information(regressor.joint_names, regressor.names, regressor.columns, tuple(factors), counts)


def widths_of(regressor: Regressor) -> list[int]:
    """Columns of [Y_i | tau_i] for each joint."""
    return [regressor.width(joint) + 1 for joint in range(regressor.joint_count)]


def rows_source(regressor: Regressor) -> str:
    """CUDA with the kernel rows_f64(q, qd, qdd, tau, row of joint 0, row of joint 1, ..., count)."""
    title = f"Rows of the regressor of {regressor.robot.name}"
    return cuda_source([Described(rows_program(regressor), "rows", "[Y_i | tau_i] of every joint i")], title)


def rows_program(regressor: Regressor) -> Program:
    """[Y_i | tau_i] of every joint, from the regressor's own program and what friction puts in its place."""
    _require_device(regressor)
    n, program = regressor.joint_count, regressor.kernel.program
    friction = _friction_program(regressor)
    first = len(program.instructions)
    merged = [*program.instructions, *(_moved(one, first) for one in friction.instructions)]
    values = list(program.outputs[0].values)
    coulomb, shaped = regressor.friction_columns
    new = [first + value for value in friction.outputs[0].values]
    replaced = len(coulomb) if _has_directions(regressor) else 0
    for (place, _, _), value in zip(coulomb[:replaced], new, strict=False):
        values[place] = value
    ends = np.searchsorted(np.array(program.outputs[0].nonzeros) // regressor.base.count, np.arange(n + 1))
    rows = [values[ends[i] : ends[i + 1]] for i in range(n)]
    at = replaced
    for one in shaped:
        for joint in np.flatnonzero(one.weights):
            rows[joint].append(new[at])
            at += 1
    for number, row in enumerate(rows):
        row.append(len(merged))
        merged.append(Instruction(Op.INPUT, source=(3, number)))
    outputs = [Output(f"row{joint}", (len(row),), tuple(range(len(row))), tuple(row)) for joint, row in enumerate(rows)]
    inputs = tuple(Input(name, (n,)) for name in MOTION)
    return Program("rows", inputs, tuple(outputs), tuple(merged))


def _friction_program(regressor: Regressor) -> Program:
    """Coulomb entries (where the kernel's sign does not serve), then the entries of shapes: functions of qd."""
    coulomb, shaped = regressor.friction_columns
    qd = casadi.SX.sym("qd", regressor.joint_count)
    u = casadi.DM(regressor.friction_matrix()) @ qd
    shape = regressor.friction
    s = casadi.sign(u) if shape.direction == "sign" else casadi.tanh(u / shape.width)
    entries = [weight * s[source] for _, source, weight in coulomb] if _has_directions(regressor) else []
    for one in shaped:
        law = FRICTION_LAWS[one.shape].parsed
        value = law.evaluate({"u": u[one.source], "s": s[one.source]}, SYMBOLIC_FUNCTIONS)
        entries += [float(one.weights[joint]) * value for joint in np.flatnonzero(one.weights)]
    # A last zero keeps the output from being empty; structural zeros would shift the places of the others.
    column = casadi.densify(casadi.vertcat(*entries, qd[0]))
    return trace(casadi.Function("friction", [qd], [column], ["qd"], ["entries"]))


def _moved(one: Instruction, by: int) -> Instruction:
    """An instruction of the friction program, its only input qd being the second of the rows."""
    source = (1, one.source[1]) if one.op is Op.INPUT else one.source
    return Instruction(one.op, tuple(by + operand for operand in one.operands), one.constant, source)


def _has_directions(regressor: Regressor) -> bool:
    return regressor.friction.direction != "sign" or bool(regressor.friction_columns[1])


def _require_device(regressor: Regressor) -> None:
    if regressor.robot.has_dependents:
        raise RobotError(
            f"robot {regressor.robot.name!r} has {regressor.robot.dependence}; rows on a GPU are of open trees",
            hint="gather them on the CPU",
        )
    if regressor.friction.direction == "stop":
        raise InputError(
            "friction by a stop operator has a memory along the log, which rows on a GPU do not have",
            hint='Friction("tanh", width)',
        )


def _require_plain(samples: Samples) -> None:
    if samples.usable is not None and not samples.usable.all():
        raise InputError(
            "rows that are not usable for some joints (slow_speed) cannot be gathered on a GPU",
            hint="gather them on the CPU",
        )


def _gathered(
    xp: Any, rows_of: device.RowsOf, regressor: Regressor, samples: Samples, chunk_rows: int = device.CHUNK_ROWS
) -> Information:
    require_joints(regressor, samples)
    arrays = [np.ascontiguousarray(getattr(samples, name)) for name in MOTION]
    factors = device.gather_on_device(xp, rows_of, arrays, chunk_rows)
    reach = np.stack([samples.q.min(axis=0), samples.q.max(axis=0)])
    require_enough(regressor, (len(samples),) * regressor.joint_count, reach)
    return information_of_factors(regressor, factors, len(samples))
