"""Intervals, correlations and files of estimates, joints one after the other, instruments: by numbers made here.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, assert_close
from raising import raises
from stand_in import PARTS, stand_in

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators import instrument_steps
from mindyn.identification.estimators.coloured_noise import sandwich
from mindyn.identification.estimators.essential import fit_essential
from mindyn.identification.estimators.estimate import Estimate, load_estimate, predict_unfiltered
from mindyn.identification.estimators.estimate_files import _find_disagreements, robot_from_record, robot_record
from mindyn.identification.estimators.estimate_parts import FitData, ParameterValues, Provenance, Uncertainty
from mindyn.identification.estimators.estimate_records import JackknifeDeviation, JointResidual, Physical
from mindyn.identification.estimators.instrument_steps import _definite, model_acceleration
from mindyn.identification.estimators.last_link_first import _format_status, compute_condition, fit_backwards
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, triangle_of
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive


@pytest.fixture(scope="module")
def regressor():
    robot = load_robot("planar2")
    return Regressor(replace(robot, drives=tuple(Drive(name) for name in robot.joint_names)))


def build_estimate(regressor, **fields):
    p = regressor.count
    root = np.random.default_rng(0).normal(size=(p, p))
    residuals = tuple(JointResidual(name, 100, 0.1, 2.0) for name in regressor.joint_names)
    given = {"covariance": root @ root.T, "beta": np.arange(1.0, p + 1), **fields}
    values, uncertainty = (
        kind(**{field: given[field] for field in kind.__dataclass_fields__ if field in given})
        for kind in (ParameterValues, Uncertainty)
    )
    return Estimate(regressor, values, uncertainty, FitData(EquationSettings(), residuals), Provenance())


def test_deviations_correlations_and_half_widths_follow_the_covariance(regressor):
    result = build_estimate(regressor)
    C = result.covariance
    assert_close(result.deviations, np.sqrt(np.diag(C)), EXACT)
    assert_close(result.uncertainty.correlations, C / np.outer(result.deviations, result.deviations), SAME_ALGEBRA)
    open_one = C.copy()
    open_one[1, 1], open_one[2] = np.inf, 0.0
    open_one[:, 2] = 0.0
    loose = build_estimate(
        regressor, covariance=open_one, unidentifiable=(regressor.names[1],), dropped=(regressor.names[2],)
    )
    assert not loose.uncertainty.correlations[[1, 2]].any()
    assert_close(loose.uncertainty.correlations[0, 0], 1.0, SAME_ALGEBRA)
    rows = np.eye(regressor.count)[[0, 1]] * 2
    expected = 1.959963984540054 * 2 * np.sqrt(C[0, 0])
    assert_close(loose.uncertainty.half_widths_of(rows)[0], expected, SAME_ALGEBRA)
    assert loose.uncertainty.half_widths_of(rows)[1] == np.inf
    ends = loose.intervals
    assert np.isnan(ends[:, [1, 2]]).all()
    assert_close(ends[:, 0], [1 - expected / 2, 1 + expected / 2], SAME_ALGEBRA)
    both = np.zeros((1, regressor.count))
    both[0, [0, 3]] = [1.0, -2.0]
    variance = C[0, 0] + 4 * C[3, 3] - 4 * C[0, 3]
    assert_close(result.uncertainty.half_widths_of(both), [1.959963984540054 * np.sqrt(variance)], SAME_ALGEBRA)


def test_intervals_of_noise_alone_exclude_blocks_and_shifts(regressor):
    p = regressor.count
    shifts = np.random.default_rng(1).normal(size=(2, p))
    blocks = JackknifeDeviation(9, False, np.full(p, 9.0), np.full(p, 2.0))
    plain = build_estimate(regressor).covariance
    whole = build_estimate(regressor, covariance=plain * 4 + shifts.T @ shifts, shifts=shifts, jackknife=blocks)
    alone = whole.by_noise_alone()
    assert_close(alone.covariance, plain, ORACLE)
    assert alone.uncertainty.shifts is None
    assert alone.uncertainty.jackknife is None
    assert_close(
        whole.uncertainty.half_widths / whole.deviations, np.full(p, 2.306004135), 1e-8
    )  # Student's, 8 degrees
    assert_close(whole.uncertainty.quantile, 2.306004135, 1e-8)
    few = replace(blocks, significant=np.full(p, 2.9), count=2)
    assert_close(few.quantiles, np.full(p, 1.959963984540054), ORACLE)
    assert_close(replace(blocks, significant=np.full(p, 3.0)).quantiles, np.full(p, 4.302652730), 1e-8)
    assert_close(few.quantile, 12.70620474, 1e-8)
    assert JackknifeDeviation.from_dict(blocks.to_dict()).to_dict() == blocks.to_dict()


def test_ends_of_physical_values_go_before_those_of_the_covariance(regressor):
    p = regressor.count
    ends = np.stack([np.zeros(p), np.full(p, 9.0)])
    ends[0, 3] = np.nan
    held = Physical((), np.zeros(0), np.zeros(p), ends=ends)
    result = build_estimate(regressor, physical=held)
    assert result.values.is_constrained
    assert result.intervals[:, 0].tolist() == [0.0, 9.0]
    assert np.isnan(result.intervals[:, 3]).all()
    assert result.values.physical.ends[1, 3] == 9.0  # what it holds is not changed
    again = Physical.from_dict(held.to_dict())
    assert np.array_equal(again.ends, ends, equal_nan=True)
    assert again.prior_fractions is None


def test_values_by_name_and_states_of_any_shape(regressor):
    result = build_estimate(regressor)
    assert result.value(regressor.names[2]) == 3.0
    with raises(InputError, Code.UNKNOWN_NAME, "nothing"):
        result.value("nothing")
    rng = np.random.default_rng(3)
    q, qd, qdd = rng.normal(size=(3, 4, 3, 2))
    flat = [item.reshape(-1, 2) for item in (q, qd, qdd)]
    dense = regressor.dense(regressor.parts(*flat)) @ result.beta
    assert_close(result.predict(q, qd, qdd), dense.reshape(4, 3, 2), ORACLE)
    with raises(InputError, Code.MISSING_VALUE):
        result.predict(q, qd)
    with raises(InputError, Code.WRONG_SHAPE, "q"):
        result.predict(q[..., :1], qd[..., :1], qdd[..., :1])
    with raises(InputError, Code.MISSING_VALUE, "conditioning"):
        result.samples_of(None)


def test_predictions_in_blocks_are_those_of_all_rows(regressor, monkeypatch):
    monkeypatch.setattr("mindyn.identification.estimators.estimate.FACTORED_ROWS", 7)
    rng = np.random.default_rng(4)
    q, qd, qdd = rng.normal(size=(3, 23, 2))
    samples = Samples(regressor.joint_names, q, qd, qdd, 0 * q, 100.0, np.zeros(23, dtype=np.int64))
    beta = rng.normal(size=regressor.count)
    whole = regressor.dense(regressor.parts(q, qd, qdd)) @ beta
    assert_close(predict_unfiltered(regressor, beta, samples), whole, ORACLE)


def test_a_file_of_another_format_raises_an_error_that_names_it(tmp_path):
    for text, hint in (('{"format": "mindyn estimate 99"}', "a later version"), ('{"format": 4}', ""), ("{}", "")):
        (tmp_path / "e.json").write_text(text)
        with raises(InputError, Code.WRONG_FORMAT, str(tmp_path / "e.json")) as rejected:
            load_estimate(tmp_path / "e.json")
        assert bool(hint) == ("another version of mindyn wrote it" in str(rejected.value))


PHYSICAL = {"labels": ["x"], "values": [1.0], "unconstrained": [1.0, 2.0], "ends": [[0, 0], [1, 1]]}


def content(**changes):
    values = {
        "beta": [1.0, 2.0],
        "covariance": [[1.0, 0.0], [0.0, None]],
        "residuals": [{}],
        "shifts": None,
        "jackknife": None,
        "physical": None,
        "joint_weights": [1.0],
        "dropped": [],
        "unidentifiable": ["b"],
    }
    made = stand_in(**{**values, **changes})
    return list(
        _find_disagreements(
            {"names": ["a", "b"], **{name: vars(part) for name, part in vars(made).items() if name in PARTS}}
        )
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"beta": [1.0]},
        {"covariance": [[1.0, 0.0]]},
        {"covariance": [[1.0], [0.0]]},
        {"covariance": [[-1.0, 0.0], [0.0, None]]},
        {"covariance": [[1.0, 0.0], [0.0, 1.0]]},  # the second is unidentifiable
        {"covariance": [[None, 0.0], [0.0, None]]},
        {"covariance": [[1.0, 0.5], [0.5, 1.0]], "unidentifiable": ["a"]},
        {"covariance": [[1.0, 0.5], [0.4, 1.0]], "unidentifiable": []},
        {"covariance": [[1.0, 1.5], [1.5, 1.0]], "unidentifiable": []},
        {"covariance": [[1.0, 0.0], [0.0, 1.0]], "unidentifiable": [], "shifts": [[1.1, 0.0]]},
        {"shifts": [[1.0]]},
        {"jackknife": {"significant": [1.0], "inflated": [1.0, 1.0]}},
        {"physical": PHYSICAL | {"ends": [[0, 0]]}},
        {"physical": PHYSICAL | {"labels": []}},
        {"physical": PHYSICAL | {"unconstrained": [1.0]}},
        {"dropped_ends": [[0, 0]]},
        {"dropped_ends": [[0], [1]]},
        {"joint_weights": [1.0, 2.0]},
        {"unidentifiable": ["z"]},
        {"dropped": ["y"]},
        {"dropped": ["a"], "covariance": [[0.0, 0.0], [0.0, None]]},
        {"dropped": ["a"], "beta": [0.0, 2.0]},
    ],
)
def test_what_contradicts_itself_is_named(changes):
    assert len(content(**changes)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shifts": [[0.5, 0.0]]},
        {"jackknife": {"significant": [1.0, 1.0], "inflated": [1.0, 1.0]}},
        {"physical": PHYSICAL},
        {"dropped_ends": [[0, 0], [1, 1]]},
        {"joint_weights": None, "residuals": []},
        {"dropped": ["a"], "beta": [0.0, 2.0], "covariance": [[0.0, 0.0], [0.0, None]]},
    ],
)
def test_what_agrees_is_sound(changes):
    assert content(**changes) == []


def test_a_sandwich_is_bread_meat_bread():
    rng = np.random.default_rng(5)
    bread, root = rng.normal(size=(4, 3)), rng.normal(size=(3, 5)) * np.array([[1.0], [1e3], [1e-3]])
    assert_close(sandwich(bread, root @ root.T), bread @ root @ root.T @ bread.T, ORACLE)
    empty = np.zeros((3, 3))
    empty[:2, :2] = [[2.0, 1.0], [1.0, 2.0]]
    assert_close(sandwich(np.eye(3), empty), empty, SAME_ALGEBRA)
    assert (np.linalg.eigvalsh(sandwich(np.eye(2), np.array([[1.0, 1 + 1e-9], [1 + 1e-9, 1.0]]))) >= -1e-15).all()


def test_a_joint_is_solved_with_the_results_of_later_joints():
    """Two joints: the last has parameters 1, 2, the first all three; against sums over their rows."""
    rng = np.random.default_rng(6)
    beta = np.array([1.0, -2.0, 0.5])
    first, last = rng.normal(size=(40, 3)), rng.normal(size=(30, 2))
    taus = [first @ beta + 0.1 * rng.normal(size=40), last @ beta[1:] + 0.1 * rng.normal(size=30)]
    tables = [np.column_stack([first, taus[0]]), np.column_stack([last, taus[1]])]
    columns = (np.arange(3), np.array([1, 2]))
    information = Information(("a", "b"), ("x", "y", "z"), columns, tuple(map(triangle_of, tables)), (40, 30))
    values, covariance, conditions, unidentifiable = fit_backwards(information)
    w = np.linalg.lstsq(last, taus[1], rcond=None)[0]
    left = taus[1] - last @ w
    C = left @ left / 28 * np.linalg.inv(last.T @ last)
    assert_close(covariance[1:, 1:], C, ORACLE)
    A, B = first[:, :1], first[:, 1:]
    expected = np.linalg.lstsq(A, taus[0] - B @ w, rcond=None)[0]
    assert_close(values, [*expected, *w], ORACLE)
    G = np.linalg.lstsq(A, B, rcond=None)[0]
    rest = B - A @ G
    residual = taus[0] - A @ expected - B @ w
    variance = max(0.0, residual @ residual - np.trace(rest @ C @ rest.T)) / 39
    assert_close(covariance[0, 0], variance / (A[:, 0] @ A[:, 0]) + (G @ C @ G.T)[0, 0], ORACLE)
    assert_close(covariance[0, 1:], -(G @ C)[0], ORACLE)
    assert unidentifiable == []
    assert list(conditions) == ["b", "a"]
    assert_close(list(conditions.values()), [np.linalg.cond(last / np.linalg.norm(last, axis=0)), 1.0], ORACLE)
    assert_close(compute_condition(np.array([[3.0, 0.0], [0.0, 1e-6]])), 1.0, ORACLE)
    residual = JointResidual("a", 40, 0.25, 1.0)
    estimate = stand_in(names=information.names, residuals=(residual,), unidentifiable=())
    message = _format_status(estimate, conditions)
    assert message.startswith("3 parameters, joint by joint from the last, leave 25 % of the torque unexplained")
    assert "the worst conditioned joint is 'b'" in message
    assert message.endswith(").")


def test_an_inertia_matrix_is_definite_whatever_its_units():
    M = np.array(
        [
            np.diag([1.0, 1e-9]),
            np.diag([1.0, -1.0]),
            [[1.0, 1.1], [1.1, 1.0]],
            np.diag([0.0, 1.0]),
            [[4.0, 1.0], [1.0, 1.0]],
        ]
    )
    assert _definite(M).tolist() == [True, False, False, False, True]


def test_expected_accelerations_are_cut_off_at_the_largest_measured(regressor, monkeypatch):
    rng = np.random.default_rng(7)
    arrays = rng.normal(size=(4, 5, 2))
    samples = Samples(regressor.joint_names, *arrays, 100.0, np.zeros(5, dtype=np.int64))
    M = np.tile(np.array([[2.0, 0.5], [0.5, 1.0]]), (5, 1, 1))
    M[3] = np.diag([1.0, -1.0])
    coasting = rng.normal(size=(5, 2))
    monkeypatch.setattr(instrument_steps, "inertia_matrices", lambda *_: M)
    monkeypatch.setattr(instrument_steps, "predict_unfiltered", lambda *_: coasting)
    result = model_acceleration(regressor, None, samples)
    largest = np.abs(samples.qdd).max(axis=0)
    for k in range(5):
        expected = (
            np.zeros(2) if k == 3 else np.clip(np.linalg.solve(M[k], samples.tau[k] - coasting[k]), -largest, largest)
        )
        assert_close(result.qdd[k] + 1.0, expected + 1.0, ORACLE)
    assert result.definite.tolist() == [True, True, True, False, True]
    assert_close(result.indefinite_part, 0.2, ORACLE)


def test_what_the_data_do_not_support_is_left_out_by_an_f_test(regressor):
    """Few rows: the F quantile counts rows less parameters; against tests of single parameters by sums."""
    from scipy.stats import f as f_distribution

    p = regressor.count
    rng = np.random.default_rng(8)
    beta = np.where(np.arange(p) % 3 == 0, 0.0, 3.0)
    tables = []
    for columns in regressor.columns:
        Y = rng.normal(size=(20, len(columns)))
        tables.append(np.column_stack([Y, Y @ beta[columns] + 0.5 * rng.normal(size=20)]))
    information = Information(
        regressor.joint_names, regressor.names, regressor.columns, tuple(map(triangle_of, tables)), (20, 20)
    )
    rows = Rows.of_information(regressor, information)
    result = fit_essential(LeastSquares(), rows, level=0.05)
    full = LeastSquares().fit(rows)
    kept = [k for k, name in enumerate(regressor.names) if name not in result.values.dropped]
    assert {k for k in range(p) if beta[k]} <= set(kept)
    threshold = f_distribution.isf(0.05, 1, 40 - p)
    weights = np.concatenate([np.full(20, w) for w in full.data.joint_weights])
    whole = np.zeros((40, p + 1))
    for j, (columns, table) in enumerate(zip(regressor.columns, tables, strict=True)):
        whole[20 * j : 20 * j + 20, [*columns, p]] = table
    A, z = whole[:, :-1] * np.sqrt(weights)[:, None], whole[:, -1] * np.sqrt(weights)

    def cost(numbers):
        left = z - A[:, numbers] @ np.linalg.lstsq(A[:, numbers], z, rcond=None)[0]
        return left @ left

    numbers, highest, dropped = list(range(p)), 0.0, []
    while len(numbers) > 1:
        rises = {k: cost([n for n in numbers if n != k]) - cost(numbers) for k in numbers}
        k = min(rises, key=rises.get)
        highest = max(highest, rises[k])
        if highest >= threshold:
            break
        dropped.append(k)
        numbers.remove(k)
    assert sorted(kept) == numbers
    for level in (0.0, 1.0):
        with raises(InputError, Code.OUT_OF_RANGE, "level"):
            fit_essential(LeastSquares(), rows, level=level)


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_the_noise_of_a_joint_is_over_rows_less_parameters_and_at_least_one(rows):
    rng = np.random.default_rng(8)
    Y, tau = rng.normal(size=(rows, 2)), rng.normal(size=rows)
    table = triangle_of(np.column_stack([Y, tau]))
    _, covariance, _, _ = fit_backwards(Information(("a",), ("x", "y"), (np.arange(2),), (table,), (rows,)))
    left = tau - Y @ np.linalg.lstsq(Y, tau, rcond=None)[0]
    expected = left @ left / {2: 1, 3: 1, 4: 2}[rows] * np.linalg.inv(Y.T @ Y)
    assert np.abs(covariance - expected).max() <= ORACLE * np.linalg.norm(np.linalg.inv(Y.T @ Y))


def test_parts_of_an_estimate_that_it_has_not_come_back_as_nothing():
    without = Physical(("a",), np.ones(1), np.zeros(1), ("link",))
    assert Physical.from_dict(without.to_dict()).ends is None
    assert Physical.from_dict(without.to_dict()).prior_fractions is None
    ends = np.array([[0.5], [np.nan]])
    held = Physical.from_dict(replace(without, ends=ends, prior_fractions=np.array([0.25])).to_dict())
    assert np.array_equal(held.ends, ends, equal_nan=True)
    assert held.prior_fractions.tolist() == [0.25]


def test_the_home_of_a_linkage_is_kept_in_the_record_of_its_robot():
    linkage, arm = load_robot("slider_crank"), load_robot("planar2")
    assert_close(robot_from_record(robot_record(linkage)).home, linkage.home, SAME_ALGEBRA)
    assert robot_from_record(robot_record(arm)).home is None
