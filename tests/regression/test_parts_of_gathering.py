"""Gathering of one log, of mixed logs, and small pieces of fits that lean on it.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from estimators.recovered import exact_samples, smooth_samples
from messages import messages
from raising import raises
from robots import random_robot

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind, info
from mindyn.identification.estimators.closed_loop_instruments import regular_values
from mindyn.identification.estimators.essential import elimination
from mindyn.identification.estimators.instrument_steps import inertia_matrices
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.conditions.inertia_matrix_family import InertiaMatrixFamily
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import log_from_arrays
from mindyn.logs.read_log import LogScan, _describe_source
from mindyn.regression.build_rows import build_rows
from mindyn.regression.experiment import Experiment
from mindyn.regression.gathered_log import gather_log
from mindyn.regression.regressor import build_regressor, with_estimated_drives
from mindyn.regression.row_blocks import gather
from mindyn.regression.rows import LogRows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive

ROBOT = random_robot(6, joints=2, tree=False, special=False, gravity=(0.0, 0.0, -9.81))
SETTINGS = Conditioning(rate_hz=200.0, stamps="uniform", motion_hz=20.0, edge_s=0.1, delay_s=0.0)
EQUATION_SETTINGS = EquationSettings(SETTINGS, drive_parameters="stated")


def draw_samples(rows, seed=0):
    samples = smooth_samples(ROBOT, rows, seed)
    log = log_from_arrays(samples.joint_names, np.arange(rows) / 200.0, samples.q, samples.tau)
    return replace(log, findings=(info(Kind.FILE_CONTENT, "a note"),))


@pytest.mark.parametrize("count", [5, None])
def test_a_worker_gathers_the_information_of_the_rows(count):
    log = draw_samples(900)
    whole = build_rows(ROBOT, log, EQUATION_SETTINGS)
    for given in (log, lambda: log):
        result = gather_log(ROBOT, given, EQUATION_SETTINGS, None, 3, count)
        assert {block.log for block in result.blocks} == {3}
        assert result.count == whole.count == 900 - 2 * 20
        assert "a note" in messages(result)
        gram = sum(block.information.factors[0].T @ block.information.factors[0] for block in result.blocks)
        R = whole.information.factors[0]
        assert_close(gram, R.T @ R, 1e-9)
        assert result.blocks[0].span[0] == 0
        assert result.blocks[-1].span[1] == result.count
    assert len(gather_log(ROBOT, log, EQUATION_SETTINGS, None, 0, 5).blocks) == 5
    expected = gather_log(ROBOT, log, EQUATION_SETTINGS, None, 0, 5, build_regressor(ROBOT, EQUATION_SETTINGS))
    assert len(expected.blocks) == 5


@pytest.mark.parametrize("count", [5, None])
def test_a_log_without_samples_has_no_block_and_raises_no_error_in_its_worker(count):
    log = gather_log(ROBOT, draw_samples(30), EQUATION_SETTINGS, None, 0, count)
    assert (log.blocks, log.count) == ((), 0)
    assert any("dropped" in note for note in messages(log))


def test_one_log_that_streams_makes_all_stream():
    log, scan = draw_samples(100), object.__new__(LogScan)
    for logs, streamed in (([log, log], False), ([log, scan], True), ([scan, log], True)):
        assert Experiment(ROBOT, logs).is_streamed == streamed
    both = LogRows(Experiment(ROBOT, [scan, log]), ROBOT, EQUATION_SETTINGS, None)
    assert both.block_counts == [None, None]


def test_statements_are_known_with_the_file_that_they_stand_in(tmp_path):
    path = tmp_path / "run.csv"
    assert _describe_source(path, {"side": "joint"}) == "run.csv"
    (tmp_path / "run.csv.toml").write_text("")
    assert _describe_source(path, {"side": "joint"}) == "run.csv in run.csv.toml"
    assert _describe_source(path, {}) == "run.csv"


def test_columns_that_are_alike_cost_nothing_to_leave_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    X = np.column_stack([X, X[:, 1]])
    y = X[:, :3] @ [1.0, 2.0, -3.0]
    path = elimination(X.T @ X, X.T @ y)
    assert path.order[0] in (1, 3)
    assert -1e-6 < path.increases[0] < 1e-6 * float(y @ y)
    assert (path.increases >= -1e-6).all()
    kept = np.flatnonzero(path.betas[1])
    assert_close(path.betas[1][kept], np.linalg.lstsq(X[:, kept], y, rcond=None)[0], 1e-5)
    assert_close(X @ path.betas[0], y, 1e-5)


def test_regular_values_of_a_chain_alone_leave_its_rotors_out():
    driven = replace(ROBOT, drives=tuple(Drive(name, 30.0, rotor_inertia=0.05) for name in ROBOT.joint_names))
    samples = exact_samples(ROBOT, count=60)
    chain = base_parameters(driven, with_drives=False)
    plain = LeastSquares().fit(build_rows(driven, samples, EquationSettings(drive_parameters="stated"), base=chain))
    result = regular_values(plain, samples)
    bare = LeastSquares().fit(build_rows(ROBOT, samples, EquationSettings(drive_parameters="stated")))
    assert_close(result, regular_values(bare, samples), ORACLE)
    M = inertia_matrices(plain.regressor, result, samples)
    assert_close(M[:, 1, 1], inertia_matrices(bare.regressor, result, samples)[:, 1, 1], SAME_ALGEBRA)
    rotors = LeastSquares().fit(build_rows(driven, samples, EquationSettings(drive_parameters="stated")))
    moved = inertia_matrices(rotors.regressor, regular_values(rotors, samples), samples)
    sizes = np.abs(np.einsum("kii->ki", inertia_matrices(rotors.regressor, rotors.beta, samples))).mean(axis=0)
    assert_close(moved, np.tile(np.diag(sizes), (60, 1, 1)), 1e-9)  # rotors alone: the same at every configuration


def test_joints_count_as_still_by_what_all_blocks_reach():
    """Each block of a slow motion moves by less than a joint that never moves; all together do not."""
    samples = exact_samples(ROBOT, 400)
    stairs = replace(samples, q=np.column_stack([samples.q[:, 0], 1e-2 * (np.arange(400) // 40)]))
    assert build_rows(ROBOT, stairs, EquationSettings(drive_parameters="stated")).information.counts == (400, 400)
    held = replace(samples, q=np.column_stack([samples.q[:, 0], np.full(400, 0.3)]))
    with raises(InputError, Code.NOT_IDENTIFIABLE, "joint2"):
        _ = build_rows(ROBOT, held, EquationSettings(drive_parameters="stated")).information


def test_samples_of_rows_are_those_given_or_made():
    samples, log = exact_samples(ROBOT, 50), draw_samples(900)
    (same,) = build_rows(ROBOT, samples, EQUATION_SETTINGS).samples()
    assert same is samples
    rows = build_rows(ROBOT, log, EQUATION_SETTINGS)
    (whole,) = rows.samples()
    assert whole is rows.all_samples("a test")
    stream = [samples, samples]
    assert list(build_rows(ROBOT, iter(stream), EQUATION_SETTINGS).samples()) == stream


def test_inertia_matrices_of_linkages_at_many_configurations_are_those_at_each():
    robot = load_robot("slider_crank")
    family = InertiaMatrixFamily(base_parameters(robot))
    values = family.base.values
    q = np.linspace(0.1, 2.0, 6)[:, None]
    together = family.matrices(q, values)
    alone = np.array([family.matrices(item[None], values)[0] for item in q])
    assert_close(together, alone, ORACLE)
    assert_close(family.matrices(q.reshape(2, 3, 1), values).reshape(6, 1, 1), alone, ORACLE)
    u = np.ones((6, 1))
    step = 1e-5
    slopes = (family.matrices(q + step, values) - family.matrices(q - step, values))[:, 0, 0] / (2 * step)
    assert_close(family.gradients(q, values, u)[:, 0], slopes, 1e-5)


def test_workers_are_sent_no_regressor_and_the_way_to_a_file_in_place_of_it(monkeypatch):
    log, regressor = draw_samples(900), build_regressor(ROBOT, EQUATION_SETTINGS)
    scan = object.__new__(LogScan)
    monkeypatch.setattr(LogScan, "opening", "how to open it")
    for executor, sent, here in ((None, scan, regressor), (object(), "how to open it", None)):
        first, second = LogRows(
            Experiment(ROBOT, [log, scan], executor=executor), ROBOT, EQUATION_SETTINGS, None
        ).tasks(regressor)
        assert (first[1], first[-1], first[4]) == (log, here, 0)
        assert (second[1], second[-1], second[4]) == (sent, here, 1)


def test_a_joint_moves_where_it_stands_elsewhere_in_another_part_of_a_stream():
    regressor, samples = build_regressor(ROBOT, EQUATION_SETTINGS), exact_samples(ROBOT, 80)
    parts = [replace(samples, q=np.column_stack([np.full(80, at), samples.q[:, 1]])) for at in (0.5, -0.5, 0.2)]
    assert gather(regressor, parts).counts == (240, 240)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "joint1"):
        gather(regressor, parts[:1] * 2)
    with raises(InputError, Code.MISSING_VALUE, "samples"):
        gather(regressor, [])


@pytest.mark.parametrize("constant", [(), (0,), (1,), (0, 1)])
def test_constant_torques_of_some_joints_have_no_weight(constant):
    """A dead sensor reads one value; if all do, it cannot be distinguished from a joint that needs no torque."""
    robot = with_estimated_drives(ROBOT)
    samples = exact_samples(robot, 90, noise=0.2)
    tau = samples.tau.copy()
    tau[:, list(constant)] = [-3.0, 0.0][: len(constant)]
    rows = build_rows(robot, replace(samples, tau=tau), EquationSettings())
    result = rows.without_constant_torques()
    if len(constant) != 1:
        assert result is rows
        return
    for joint, (factor, before) in enumerate(zip(result.information.factors, rows.information.factors, strict=True)):
        expected = 0.0 if joint in constant else np.linalg.norm(tau[:, joint])
        assert np.linalg.norm(factor[:, -1]) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert_close(factor[:, :-1].T @ factor[:, :-1], before[:, :-1].T @ before[:, :-1], ORACLE)
    nearly = tau.copy()
    nearly[:, constant[0]] *= 1 + 1e-3 * np.sin(np.arange(90))
    almost = build_rows(robot, replace(samples, tau=nearly), EquationSettings())
    assert almost.without_constant_torques() is almost
