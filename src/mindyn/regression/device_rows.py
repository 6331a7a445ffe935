"""The rows [Y_i | tau_i] of every joint as one program, from which one CUDA kernel is generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import casadi
import numpy as np

from mindyn.equations.drives import SYMBOLIC_FUNCTIONS
from mindyn.errors import Code, InputError
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.program import Input, Instruction, Op, Output, Program
from mindyn.kernels.source_text import SourceFunction
from mindyn.kernels.tracing import trace
from mindyn.regression.regressor import Regressor
from mindyn.robots.friction_laws import FRICTION_LAWS

MOTION: Final = ("q", "qd", "qdd", "tau")
_INPUTS: Final = {"q": 0, "qd": 1, "qdd": 2, "tau": 3, "s": 4}
"""Numbers of the inputs of the rows."""


def widths_of(regressor: Regressor) -> list[int]:
    """Return the number of columns of [Y_i | tau_i] for each joint."""
    return [regressor.width(joint) + 1 for joint in range(regressor.joint_count)]


def takes_directions(regressor: Regressor) -> bool:
    """Return whether the rows need the friction directions as an input, because a stop operator has a memory."""
    return regressor.friction.direction == "stop"


def rows_source(regressor: Regressor) -> str:
    """Return CUDA source of the kernel rows_f64(q, qd, qdd, tau[, s], row of joint 0, row of joint 1, ..., count).

    q is the result of `regressor.positions`; the others are those of the primary joints.
    """
    title = f"Rows of the regressor of {regressor.robot.name}"
    return cuda_source([SourceFunction(rows_program(regressor), "rows", "[Y_i | tau_i] of every joint i")], title)


def rows_program(regressor: Regressor) -> Program:
    """Return the program of [Y_i | tau_i] of every joint, with friction columns in place of those of the kernel."""
    if type(regressor) is not Regressor:
        raise InputError(
            "rows on a GPU are of a robot's own columns",
            hint="gather these on the CPU",
            code=Code.UNSUPPORTED,
            subject="gpu",
        )
    return _Rows(regressor).program()


class _Rows:
    """Builds the program: instructions, and the values of the columns of each joint."""

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
        known = {"load": load, "turns": self._turns()}
        entries = iter(self._appended(_friction_program(regressor, has_directions=has_directions), known))
        if has_directions:
            for place, _, _ in (*coulomb, *regressor.varying_coulomb):
                self._values[place] = next(entries)
        rows = [self._values[self._ends[i] : self._ends[i + 1]] for i in range(n)]
        for shape in shaped:
            for joint in np.flatnonzero(shape.weights):
                rows[joint].append(next(entries))
        for number, row in enumerate(rows):
            row.append(self._add(Instruction(Op.INPUT, source=(_INPUTS["tau"], number))))
        outputs = [Output(f"row{i}", (len(row),), tuple(range(len(row))), tuple(row)) for i, row in enumerate(rows)]
        inputs = [regressor.kernel.program.inputs[0], *(Input(name, (n,)) for name in MOTION[1:])]
        if takes_directions(regressor):
            inputs.append(Input("s", (len(regressor.friction_matrix()),)))
        return Program("rows", tuple(inputs), tuple(outputs), tuple(self._instructions))

    def _add(self, instruction: Instruction) -> int:
        self._instructions.append(instruction)
        return len(self._instructions) - 1

    def _combined(self, weights: list[float], values: list[int]) -> int:
        """Return the sum of weights times values."""
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
        """Return the load of every drive: the torque of the reference links and rotors."""
        if (weights := self._regressor.load_weights) is None:
            return []
        split = zip(weights[0], self._ends, self._ends[1:], strict=False)
        joints = [self._combined(columns.tolist(), self._values[start:stop]) for columns, start, stop in split]
        return [self._combined(column.tolist(), joints) for column in weights[1].T]

    def _turns(self) -> list[int]:
        """Return F W (sources, k) of friction that moves with dependent joints of solved loops, row by row."""
        if (varying := self._regressor.varying) is None:
            return []
        return self._appended(varying.kernel.program, {})

    def _appended(self, program: Program, known: Mapping[str, Sequence[int]]) -> list[int]:
        """Append a program and return the values of its first output; `known` has the values of some inputs."""
        numbers: list[int] = []
        for step in program.instructions:
            name, element = (program.inputs[step.source[0]].name, step.source[1]) if step.op is Op.INPUT else ("", 0)
            if name in known:
                numbers.append(known[name][element])
                continue
            source = (_INPUTS[name], element) if name else step.source
            operands = tuple(numbers[operand] for operand in step.operands)
            numbers.append(self._add(Instruction(step.op, operands, step.constant, source)))
        output = program.outputs[0]
        values = [self._add(Instruction(Op.CONST))] * output.size
        for place, value in zip(output.nonzeros, output.values, strict=True):
            values[place] = numbers[value]
        return values


def _friction_program(regressor: Regressor, *, has_directions: bool) -> Program:
    """Return the program of Coulomb entries (if the sign of the kernel does not apply) and of the shapes."""
    coulomb, shaped = regressor.friction_columns
    n, shape, varying = regressor.joint_count, regressor.friction, regressor.varying
    qd, load = casadi.SX.sym("qd", n), casadi.SX.sym("load", len(regressor.robot.drives))
    flat = casadi.SX.sym("turns", 0 if varying is None else len(varying.sources) * n)
    turns = casadi.reshape(flat, n, -1).T
    scales = regressor.friction_scales
    u = casadi.DM(regressor.friction_matrix()) @ qd
    for number, source in enumerate(() if varying is None else varying.sources):
        u[source] = turns[number, :] @ qd / scales[source]
    given = casadi.SX.sym("s", u.numel())
    s = {"sign": casadi.sign(u), "tanh": casadi.tanh(u / (shape.width or 1.0)), "stop": given}[shape.direction]
    entries = [weight * s[source] for _, source, weight in coulomb] if has_directions else []
    if varying is not None and has_directions:
        entries += [
            np.sign(scales[source]) * turns[varying.number(source), joint] * s[source]
            for _, source, joint in regressor.varying_coulomb
        ]
    for shaped_law in shaped:
        law = FRICTION_LAWS[shaped_law.shape].parsed
        known = {"u": u[shaped_law.source], "s": s[shaped_law.source]}
        if law.needs_load:
            known["load"] = load[shaped_law.source]
        value = law.evaluate(known, SYMBOLIC_FUNCTIONS)
        for joint in map(int, np.flatnonzero(shaped_law.weights)):
            weight = float(shaped_law.weights[joint])
            if shaped_law.varies and varying is not None:
                weight = turns[varying.number(shaped_law.source), joint] / scales[shaped_law.source]
            entries.append(weight * value)
    # A last zero keeps the output from being empty; structural zeros would shift the places of the others.
    column = casadi.densify(casadi.vertcat(*entries, qd[0]))
    names = ["qd", "s", "load", "turns"]
    return trace(casadi.Function("friction", [qd, given, load, flat], [column], names, ["entries"]))
