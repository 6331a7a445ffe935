"""R factors carry all of the data: they equal the dense stack's, combine, and list unidentifiable parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from estimators.recovered import exact_samples, smooth_samples
from raising import raises
from robots import random_robot, with_random_drives

from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.model import compile_model
from mindyn.logs.filters import lowpass
from mindyn.parameters.structural import structural_base
from mindyn.regression.friction import Friction
from mindyn.regression.information import GramMatrices, solve
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import FILTERED_ROWS, blocks, gather
from mindyn.robots.parts import ExtraTorque


def driven(seed, **options):
    return with_random_drives(random_robot(seed, **options), seed)


@pytest.mark.parametrize("seed", range(6))
def test_columns_are_those_of_the_dense_regressor(seed):
    robot = driven(seed, joints=4)
    samples = exact_samples(robot, 50)
    regressor = Regressor(robot)
    dense = regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd))
    model = compile_model(robot, with_drives=True, base=structural_base(robot, with_drives=True))
    assert_close(dense, model.regressor(samples.q, samples.qd, samples.qdd), SAME_ALGEBRA)


def test_gram_matrices_do_not_depend_on_further_columns():
    """Not even in rounding, for a range of rows and for listed rows: settings are tried together, or in two groups."""
    rows = np.random.default_rng(0).normal(size=(200, 40))
    taken = [(0, slice(5, 90, 2)), (1, np.arange(3, 180, 7)), (1, np.array([], dtype=np.intp))]
    every, few = (GramMatrices(rows[:, :width].copy(), 2) for width in (40, 23))
    for sums in (every, few):
        sums.add(taken)
    assert np.array_equal(few.matrices, every.matrices[:, :23, :23])
    for matrix, (_, own) in zip(every.matrices, taken, strict=False):
        assert_close(matrix, rows[own].T @ rows[own], SAME_ALGEBRA)


@pytest.mark.parametrize("seed", range(4))
def test_factors_hold_the_normal_equations_of_all_rows(seed):
    robot = driven(seed, joints=3)
    samples = exact_samples(robot, 2500)
    regressor = Regressor(robot)
    weights = np.array([1.0, 4.0, 0.25])
    R, z = gather(regressor, samples).stacked(weights)
    Y = regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd))
    assert_close(R.T @ R, np.einsum("kip,i,kiq->pq", Y, weights, Y), SAME_ALGEBRA)
    assert_close(R.T @ z, np.einsum("kip,i,ki->p", Y, weights, samples.tau), SAME_ALGEBRA)


def test_information_of_parts_adds_up_to_that_of_the_whole():
    robot = driven(1, joints=4)
    whole, regressor = exact_samples(robot, 3000), Regressor(robot)
    halves = [
        replace(whole, **{k: getattr(whole, k)[part] for k in ("q", "qd", "qdd", "tau", "segments")})
        for part in (slice(0, 1200), slice(1200, None))
    ]
    together = gather(regressor, halves[0]) + gather(regressor, halves[1])
    streamed = gather(regressor, iter(halves))
    information = gather(regressor, whole)
    assert together.counts == streamed.counts == information.counts
    for factor, other, third in zip(information.factors, together.factors, streamed.factors, strict=True):
        assert_close(other.T @ other, factor.T @ factor, SAME_ALGEBRA)
        assert_close(third.T @ third, factor.T @ factor, SAME_ALGEBRA)


def test_filtering_in_windows_is_filtering_the_whole():
    robot = with_estimated_drives(random_robot(3, joints=2))
    samples = smooth_samples(robot, 2 * FILTERED_ROWS + 5000, rate=1000.0)
    regressor = Regressor(robot)
    parts = regressor.parts(samples.q, samples.qd, samples.qdd)
    whole = lowpass(np.concatenate([*parts[0], samples.tau[:, :1]], axis=1), 20.0, 1000.0)
    seen = []
    for created, rows in blocks(regressor, samples, 20.0, 3):
        assert_close(np.concatenate(created[0], axis=1), whole[rows], 1e-10)
        seen.append(rows)
    seen = np.concatenate(seen)
    assert (np.diff(seen) == 3).all()
    assert seen[0] >= 100
    assert seen[-1] < len(samples) - 100


def test_unusable_rows_do_not_count():
    robot = driven(2, joints=3)
    samples = exact_samples(robot, 900)
    usable = np.random.default_rng(0).random(samples.q.shape) < 0.7
    spoiled = replace(samples, tau=np.where(usable, samples.tau, 1e6), usable=usable)
    information = gather(Regressor(robot), spoiled)
    assert information.counts == tuple(usable.sum(axis=0))
    assert_close(solve(*information.stacked()).beta, structural_base(robot, with_drives=True).values, 1e-8)


def test_unidentifiable_parameters_are_named():
    robot = with_estimated_drives(random_robot(5, joints=3, tree=False))
    samples = exact_samples(robot, 400)
    one_way = replace(samples, qd=np.abs(samples.qd) + 0.1)  # offset and Coulomb friction are then the same column
    known, unidentifiable_values = gather(Regressor(robot), samples), gather(Regressor(robot), one_way)
    assert known.unidentifiable() == {}
    assert np.isfinite(known.condition_number())
    assert set(unidentifiable_values.unidentifiable()) == {"fo1", "fc1", "fo2", "fc2", "fo3", "fc3"}
    assert unidentifiable_values.unidentifiable()["fc2"] != ()
    assert unidentifiable_values.condition_number() == np.inf


def test_extra_torques_act_on_their_joint():
    robot = with_estimated_drives(random_robot(7, joints=3))
    spring = ExtraTorque("spring", robot.joint_names[1], "sin(3 * q)")
    samples = exact_samples(robot, 800)
    tau = samples.tau.copy()
    tau[:, 1] += 2.5 * np.sin(3 * samples.q[:, 1])
    regressor = Regressor(replace(robot, extras=(spring,)))
    result = solve(*gather(regressor, replace(samples, tau=tau)).stacked()).beta
    assert result[regressor.names.index("spring")] == pytest.approx(2.5, rel=1e-9)


def test_the_stop_operator_keeps_its_direction_at_rest_and_clips_in_motion():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(700, 2))
    u[300:400] = 0.0
    segments = np.repeat([0, 1], 350)
    result = Friction("stop", 0.004).directions(u, segments, 100.0)
    z = np.zeros(2)
    for k in range(700):
        z = np.zeros(2) if k in (0, 350) else np.clip(z + u[k] / (0.004 * 100.0), -1, 1)
        assert result[k] == pytest.approx(z, abs=1e-12)
    assert (result[301:350] == result[300]).all()


def test_smooth_friction_of_a_coupled_motor_acts_on_both_joints():
    robot = driven(11, joints=3)
    regressor = Regressor(robot, Friction("tanh", 1e-9, ("root",)))
    samples = exact_samples(robot, 40)
    directions = regressor.directions(samples.q, samples.qd, samples.segments, 1000.0)
    smooth = regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd, directions))
    plain = Regressor(robot)
    sharp = plain.dense(plain.parts(samples.q, samples.qd, samples.qdd))
    assert_close(smooth[:, :, : plain.count], sharp, SAME_ALGEBRA)


class TestBadInput:
    def test_a_joint_that_never_moves_is_named(self):
        robot = with_estimated_drives(random_robot(3, joints=3))
        samples = exact_samples(robot, 200)
        q = samples.q.copy()
        q[:, 1] = 0.3
        with raises(InputError, Code.NOT_IDENTIFIABLE, "joint2"):
            gather(Regressor(robot), replace(samples, q=q))

    def test_too_few_rows_are_counted(self):
        robot = with_estimated_drives(random_robot(3, joints=3))
        with raises(InputError, Code.TOO_LITTLE_DATA, "joint1"):
            gather(Regressor(robot), exact_samples(robot, 12))

    def test_samples_of_another_robot_are_rejected(self):
        samples = exact_samples(random_robot(3, joints=3), 200)
        with raises(InputError, Code.DISAGREEMENT, "joint_names"):
            gather(Regressor(random_robot(4, joints=2)), samples)

    def test_a_column_that_is_not_finite_is_named(self):
        robot = random_robot(3, joints=2)
        samples = exact_samples(robot, 100)
        broken = replace(robot, extras=(ExtraTorque("spring", "joint1", "log(q)"),))
        first = int(np.argmax(samples.q[:, 0] <= 0))
        with raises(InputError, Code.NOT_FINITE, "spring") as raised:
            gather(Regressor(broken), samples)
        assert f"at sample {first}, q = " in raised.value.message

    def test_unknown_shapes_are_rejected_with_the_known_ones(self):
        with raises(InputError, Code.INVALID_VALUE, "friction.shapes[0]"):
            Friction(shapes=("quartic",))
