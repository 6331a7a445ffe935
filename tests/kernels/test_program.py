"""The instruction list: what is normalised, shared, dropped and counted."""

from __future__ import annotations

from collections import Counter

import casadi as ca
import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises
from serial_arm import inverse_dynamics, puma_like, regressor

from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.array_layout import Layout
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.operation_counts import operation_counts
from mindyn.kernels.ordering import Compute, ComputeSines, Store
from mindyn.kernels.program import Op
from mindyn.kernels.schedule import schedule
from mindyn.kernels.tracing import trace
from mindyn.kernels.vector_code import Format

x, y = ca.SX.sym("x"), ca.SX.sym("y")


def counts(*outputs):
    return operation_counts(trace(ca.Function("f", [x, y], list(outputs))))


def operations(*outputs):
    skipped = (Op.INPUT, Op.CONST, Op.SIN, Op.COS)
    return [
        instruction.op
        for instruction in trace(ca.Function("f", [x, y], list(outputs))).instructions
        if instruction.op not in skipped
    ]


def test_a_square_is_a_multiplication_and_twice_an_addition():
    assert operations(x**2) == [Op.MUL]
    assert operations(2 * x) == [Op.ADD]
    assert operations(x * 1, x * -1) == [Op.NEG]


def test_signs_move_outward_and_vanish_in_sums():
    assert operations(y + (-x) * y) == [Op.MUL, Op.SUB]
    assert operations(y - (-x)) == [Op.ADD]
    assert operations((-x) * (-y)) == [Op.MUL]


def test_sine_and_cosine_of_one_angle_are_one_operation():
    assert operations(ca.sin(x) * ca.cos(x)) == [Op.SINCOS, Op.MUL]
    assert counts(ca.sin(x), ca.cos(x), ca.sin(y)).sincos == 2


def test_equal_expressions_are_computed_once_in_any_order():
    assert counts(x * y + 1, y * x + 2).multiplications == 1


def test_dead_code_and_zero_outputs_vanish():
    program = trace(ca.Function("f", [x, y], [ca.vertcat(x * y, 0.0, x)]))
    assert [output.nonzeros for output in program.outputs] == [(0, 2)]
    assert operations(x + y, 0 * ca.sin(x)) == [Op.ADD]


def test_counts_name_every_kind():
    actual = counts(x * y + x, x / y, ca.sqrt(x), ca.sin(x), ca.tanh(y), -y, ca.fabs(x))
    assert (actual.multiplications, actual.additions, actual.divisions, actual.square_roots) == (1, 1, 1, 1)
    assert (actual.sincos, actual.negations, actual.other, actual.total) == (1, 1, 2, 7)
    assert str(actual).startswith("1 multiplications, 1 additions, 1 divisions")


def test_counts_of_an_arm_equal_casadis_up_to_sharing():
    function = inverse_dynamics(puma_like())
    actual = operation_counts(trace(function))
    ids = [function.instruction_id(k) for k in range(function.n_instructions())]
    assert actual.multiplications <= sum(ids.count(op) for op in (ca.OP_MUL, ca.OP_SQ))
    assert actual.additions <= sum(ids.count(op) for op in (ca.OP_ADD, ca.OP_SUB, ca.OP_TWICE))
    assert actual.sincos == 5  # the first joint is vertical


def test_matrices_are_row_major():
    matrix = ca.SX.sym("A", 2, 3)
    program = trace(ca.Function("f", [matrix], [matrix.T], ["A"], ["B"]))
    assert (program.inputs[0].shape, program.outputs[0].shape) == ((2, 3), (3, 2))
    sources = [program.instructions[v].source[1] for v in program.outputs[0].values]
    assert sources == np.arange(6).reshape(2, 3).T.ravel().tolist()


def test_the_digest_depends_on_every_constant():
    program, other = (trace(ca.Function("f", [x], [x * c])) for c in (0.1, np.nextafter(0.1, 1)))
    again = trace(ca.Function("f", [x], [x * 0.1]))
    assert program.digest == again.digest != other.digest


def test_unsupported_operations_raise_with_their_name():
    with raises(InputError, Code.UNSUPPORTED, "OP_ERF"):
        trace(ca.Function("f", [x], [ca.erf(x)]))


def test_only_scalar_expression_graphs_are_read():
    matrix = ca.MX.sym("A", 2, 2)
    with raises(InputError, Code.WRONG_TYPE, "f"):
        trace(ca.Function("f", [matrix], [ca.inv(matrix)]))


@pytest.mark.parametrize("part_size", [None, 100])
def test_a_schedule_computes_before_it_uses(part_size):
    program = trace(regressor(puma_like()))
    plan = schedule(program, Layout(Format(64, 8)), part_size)
    known = {v for v, instruction in enumerate(program.instructions) if instruction.op in (Op.CONST, Op.INPUT)}
    stored = []
    for part in plan.parts:
        for step in part.steps:
            match step:
                case Compute(value):
                    assert set(program.instructions[value].operands) <= known
                    known.add(value)
                case ComputeSines(pairs):
                    known |= {
                        v
                        for v, instruction in enumerate(program.instructions)
                        if set(instruction.operands) & set(pairs)
                    }
                case Store(_, _, values):
                    assert {v for v in values if v is not None} <= known
                    stored += [v for v in values if v is not None]
    assert stored == list(program.outputs[0].values)


def test_values_between_parts_never_share_a_slot_while_alive():
    plan = schedule(trace(regressor(puma_like())), Layout(Format(64, 8)), 100)
    last_use = {v: number for number, part in enumerate(plan.parts) for v in part.imports}
    alive: set[int] = set()
    for number, part in enumerate(plan.parts):
        alive = {v for v in alive if last_use[v] >= number} | part.exports
        slots = [plan.slots[v] for v in alive]
        assert len(slots) == len(set(slots))
    assert len(set(plan.slots.values())) < len(plan.slots)


def test_there_is_one_division_for_each_divisor():
    """By a shared number and by constants: multiplications by the reciprocal; single quotients stay divisions."""
    assert operations(x / y) == [Op.DIV]
    assert operations(x / 3) == [Op.MUL]
    assert Counter(operations(x / y, ca.sqrt(x) / y, 5 / y)) == {Op.DIV: 1, Op.SQRT: 1, Op.MUL: 3}
    function = ca.Function("f", [x, y], [ca.vertcat(x / y, ca.sin(x) / y + y / 3, ca.cos(y) / (7 * y), 5 / y)])
    values = np.random.default_rng(0).uniform(0.5, 2.0, (2, 50))
    expected = np.array([np.asarray(function(*pair)).ravel() for pair in values.T])
    assert_close(Kernel(function)(*values[..., None]), expected, SAME_ALGEBRA)
