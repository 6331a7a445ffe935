"""The rows [Y_i | tau_i] of every joint as one program, and so as one CUDA kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import casadi
import numpy as np

from mindyn.equations.drives import SYMBOLIC_FUNCTIONS
from mindyn.errors import InputError, RobotError
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.program import Input, Instruction, Op, Output, Program
from mindyn.kernels.source_text import Described
from mindyn.kernels.tracing import trace
from mindyn.regression.regressor import Regressor
from mindyn.robots.friction_laws import FRICTION_LAWS
from mindyn.robots.robot import Robot

MOTION: Final = ("q", "qd", "qdd", "tau")
_TAU: Final = 3
_DIRECTIONS: Final = 4
"""Numbers of the inputs of the rows."""


def widths_of(regressor: Regressor) -> list[int]:
    """Columns of [Y_i | tau_i] for each joint."""
    return [regressor.width(joint) + 1 for joint in range(regressor.joint_count)]


def takes_directions(regressor: Regressor) -> bool:
    """Whether the rows need the directions of friction as one more input: a stop operator has a memory."""
    return regressor.friction.direction == "stop"


def rows_source(regressor: Regressor) -> str:
    """CUDA with the kernel rows_f64(q, qd, qdd, tau[, s], row of joint 0, row of joint 1, ..., count)."""
    title = f"Rows of the regressor of {regressor.robot.name}"
    return cuda_source([Described(rows_program(regressor), "rows", "[Y_i | tau_i] of every joint i")], title)


def require_open_tree(robot: Robot) -> None:
    """Refuses a robot whose rows a GPU does not compute."""
    if robot.has_dependents:
        raise RobotError(
            f"robot {robot.name!r} has {robot.dependence}; rows on a GPU are of open trees",
            hint="gather them on the CPU",
        )


def rows_program(regressor: Regressor) -> Program:
    """[Y_i | tau_i] of every joint, from the regressor's own program and what friction puts in its place."""
    require_open_tree(regressor.robot)
    if type(regressor) is not Regressor:
        raise InputError("rows on a GPU are of a robot's own columns", hint="gather these on the CPU")
    return _Rows(regressor).program()


class _Rows:
    """The program while it is put together: instructions, and for each joint the values of its columns."""

    def __init__(self, regressor: Regressor) -> None:
        self._regressor = regressor
        program = regressor.kernel.program
        self._instructions = list(program.instructions)
        self._values = list(program.outputs[0].values)
        places = np.array(program.outputs[0].nonzeros) // regressor.base.count
        self._ends = np.searchsorted(places, np.arange(regressor.joint_count + 1))

    def program(self) -> Program:
        regressor, n = self._regressor, self._regressor.joint_count
        coulomb, shaped = regressor.friction_columns
        load = self._loads()
        has_directions = regressor.friction.direction != "sign" or bool(shaped)
        entries = self._appended(_friction_program(regressor, has_directions=has_directions), load)
        for place, _, _ in coulomb if has_directions else ():
            self._values[place] = next(entries)
        rows = [self._values[self._ends[i] : self._ends[i + 1]] for i in range(n)]
        for one in shaped:
            for joint in np.flatnonzero(one.weights):
                rows[joint].append(next(entries))
        for number, row in enumerate(rows):
            row.append(self._add(Instruction(Op.INPUT, source=(_TAU, number))))
        outputs = [Output(f"row{i}", (len(row),), tuple(range(len(row))), tuple(row)) for i, row in enumerate(rows)]
        inputs = [Input(name, (n,)) for name in MOTION]
        if takes_directions(regressor):
            inputs.append(Input("s", (len(regressor.friction_matrix()),)))
        return Program("rows", tuple(inputs), tuple(outputs), tuple(self._instructions))

    def _add(self, one: Instruction) -> int:
        self._instructions.append(one)
        return len(self._instructions) - 1

    def _combined(self, weights: list[float], values: list[int]) -> int:
        """sum of weights times values."""
        terms = [
            self._add(Instruction(Op.MUL, (self._add(Instruction(Op.CONST, constant=float(w))), value)))
            for w, value in zip(weights, values, strict=True)
            if w
        ]
        total = terms[0] if terms else self._add(Instruction(Op.CONST))
        for term in terms[1:]:
            total = self._add(Instruction(Op.ADD, (total, term)))
        return total

    def _loads(self) -> list[int]:
        """Load of every drive: torque of the reference's links and rotors."""
        if (weights := self._regressor.load_weights) is None:
            return []
        split = zip(weights[0], self._ends, self._ends[1:], strict=False)
        joints = [self._combined(own.tolist(), self._values[start:stop]) for own, start, stop in split]
        return [self._combined(column.tolist(), joints) for column in weights[1].T]

    def _appended(self, program: Program, load: list[int]) -> Iterator[int]:
        """The values of the program's output; its inputs are qd, the directions and loads, which are there already."""
        found: list[int] = []
        for one in program.instructions:
            if one.op is Op.INPUT and program.inputs[one.source[0]].name == "load":
                found.append(load[one.source[1]])
                continue
            source = one.source
            if one.op is Op.INPUT:
                source = ({"qd": 1, "s": _DIRECTIONS}[program.inputs[source[0]].name], source[1])
            operands = tuple(found[operand] for operand in one.operands)
            found.append(self._add(Instruction(one.op, operands, one.constant, source)))
        return iter([found[value] for value in program.outputs[0].values])


def _friction_program(regressor: Regressor, *, has_directions: bool) -> Program:
    """Coulomb entries (where the kernel's sign does not serve), then the entries of shapes."""
    coulomb, shaped = regressor.friction_columns
    qd, shape = casadi.SX.sym("qd", regressor.joint_count), regressor.friction
    u = casadi.DM(regressor.friction_matrix()) @ qd
    given = casadi.SX.sym("s", u.numel())
    load = casadi.SX.sym("load", len(regressor.robot.drives))
    s = {"sign": casadi.sign(u), "tanh": casadi.tanh(u / (shape.width or 1.0)), "stop": given}[shape.direction]
    entries = [weight * s[source] for _, source, weight in coulomb] if has_directions else []
    for one in shaped:
        law = FRICTION_LAWS[one.shape].parsed
        known = {"u": u[one.source], "s": s[one.source]}
        if law.needs_load:
            known["load"] = load[one.source]
        value = law.evaluate(known, SYMBOLIC_FUNCTIONS)
        entries += [float(one.weights[joint]) * value for joint in np.flatnonzero(one.weights)]
    # A last zero keeps the output from being empty; structural zeros would shift the places of the others.
    column = casadi.densify(casadi.vertcat(*entries, qd[0]))
    return trace(casadi.Function("friction", [qd, given, load], [column], ["qd", "s", "load"], ["entries"]))
