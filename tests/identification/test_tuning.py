"""Settings chosen inside the training rows: from short logs too, and no parameter is dropped without need.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from estimators.recovered import smooth_samples
from messages import messages
from robots import random_robot, with_random_drives

import mindyn
from mindyn.foundation.processes import workers
from mindyn.identification.selection import tune
from mindyn.identification.selection.trials import MOST_DROPPED, Trial, Trials, score_all, scores
from mindyn.identification.selection.tune import (
    SearchSpace,
    _presliding_candidates,
    _select_essential,
    least_supported,
    tune_settings,
)
from mindyn.logs.conditioning import AS_LOGGED, Conditioning
from mindyn.logs.log import log_from_arrays
from mindyn.logs.noise_cutoff import noise_floor_cutoff
from mindyn.logs.resolving import resolve_conditioning
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import Regressor
from mindyn.regression.settings import PLAIN_FRICTION, EquationSettings


def trial_of(conditioning, equations_hz=None, friction=PLAIN_FRICTION, **excluded):
    return Trial(EquationSettings(conditioning, equations_hz, friction=friction), **excluded)


def exact_log(robot, rows, seed=1):
    s = smooth_samples(robot, rows, seed)
    return log_from_arrays(s.joint_names, np.arange(rows) / s.rate_hz, s.q, s.tau, s.qd, s.qdd)


def test_a_filter_that_leaves_too_few_blocks_is_never_the_best():
    robot = mindyn.load_robot("planar2")
    log = exact_log(robot, 1601)
    trials = Trials(mindyn.Experiment(robot, [log]), Regressor(robot))
    c, _ = resolve_conditioning(Conditioning(), [log], noise_floor_cutoff)
    assert trials.score(trial_of(c, 0.5, Friction())).criterion == np.inf
    assert trials.score(trial_of(c, 20.0, Friction())).criterion < np.inf


def test_a_log_of_a_few_seconds_is_identified():
    robot = mindyn.load_robot("planar2")
    for rows in (300, 1601):
        estimate = mindyn.identify(robot, exact_log(robot, rows))
        assert np.isfinite(estimate.beta).all()


def test_parameters_that_exact_data_support_are_all_kept():
    robot = with_random_drives(random_robot(2, joints=2, tree=False), 2)
    c, _ = resolve_conditioning(AS_LOGGED, [exact_log(robot, 4000)], noise_floor_cutoff)
    trials = Trials(mindyn.Experiment(robot, [exact_log(robot, 4000)]), Regressor(robot))
    only_parameters = SearchSpace(EquationSettings(c))
    result = tune_settings(trials, trial_of(c, None, Friction()), only_parameters, lambda line: None)  # noqa: ARG005
    assert result.dropped == 0
    assert trials.dropped(result) == ()


def test_findings_name_the_selected_cutoff():
    robot = mindyn.load_robot("planar2")
    estimate = mindyn.identify(robot, exact_log(robot, 1601))
    known = [str(note) for note in messages(estimate) if "cut-off" in str(note)]
    used = estimate.settings.conditioning.motion_hz
    assert len(known) == 1
    assert known[0].endswith("no filter" if used is None else f"{used:.4g} Hz")


@pytest.mark.parametrize("without", [(), ("rotor",), ("rotor", "offset")])
def test_dropped_parameters_are_counted_among_the_fitted_ones(without, monkeypatch):
    """A kind that is left out stands for all its parameters."""
    robot = with_random_drives(random_robot(2, joints=3, tree=False), 2)
    log = exact_log(robot, 2000)
    c, _ = resolve_conditioning(AS_LOGGED, [log], noise_floor_cutoff)
    trials = Trials(mindyn.Experiment(robot, [log]), Regressor(robot))
    fitted = sum(parameter.kind not in without for parameter in trials.regressor.with_friction(Friction()).parameters)
    asked = []

    def criterion(left, _):
        """The more is dropped, the smaller is the error."""
        asked.append(len(left))
        return np.linspace(2.0, 1.0, len(left))

    monkeypatch.setattr(tune, "criterion_of", criterion)
    trial, error = least_supported([trials], trial_of(c, None, Friction(), without=without))
    assert asked == [round(MOST_DROPPED * fitted)]
    assert (trial.dropped, error) == (asked[0] - 1, 1.0)


def test_more_dropped_parameters_than_a_simpler_friction_has_are_searched_again():
    """A trial keeps its number of dropped parameters when shapes are removed from its friction."""
    robot = with_random_drives(random_robot(2, joints=2, tree=False), 2)
    log = exact_log(robot, 2000)
    c, _ = resolve_conditioning(AS_LOGGED, [log], noise_floor_cutoff)
    trials = Trials(mindyn.Experiment(robot, [log]), Regressor(robot))
    full, _ = least_supported([trials, trials.with_folds(3)], trial_of(c, None, Friction()))
    again, _ = least_supported([trials, trials.with_folds(3)], replace(full, dropped=1000))
    assert again == full


def test_a_part_of_long_logs_excludes_no_cutoff_near_the_best(monkeypatch):
    robot, rng = mindyn.load_robot("planar2"), np.random.default_rng(4)
    logs = [exact_log(robot, 4001, seed) for seed in range(8)]
    logs = [replace(log, tau=log.tau + 0.2 * rng.normal(size=log.tau.shape)) for log in logs]
    c, _ = resolve_conditioning(AS_LOGGED, logs, noise_floor_cutoff)
    trials = Trials(mindyn.Experiment(robot, logs), Regressor(robot))
    listed = [trial_of(c, f, Friction("tanh", 0.05)) for f in (None, 2.0, 4.0, 8.0, 16.0, 32.0)]
    kept = tune._promising_trials(trials, listed)
    errors = [score.criterion for (score,) in score_all([trials], listed)]
    assert {trial for trial, error in zip(listed, errors, strict=True) if error < 1.15 * min(errors)} <= set(kept)
    assert len(kept) < len(listed)
    assert (
        tune._promising_trials(Trials(mindyn.Experiment(robot, logs[:5]), Regressor(robot)), listed) == listed
    )  # few logs
    monkeypatch.setattr("mindyn.identification.selection.trials.MIN_SKETCHED_ROWS", 5000)
    assert (
        tune._promising_trials(Trials(mindyn.Experiment(robot, logs), Regressor(robot)), listed) == listed
    )  # short ones


@pytest.mark.parametrize("dropped", [0, 2])
def test_rows_summed_for_several_foldings_score_as_those_of_one(dropped):
    log = exact_log(mindyn.load_robot("planar2"), 1601)
    regressor = Regressor(mindyn.load_robot("planar2"))
    c, _ = resolve_conditioning(Conditioning(), [log], noise_floor_cutoff)
    for setting in (trial_of(c, f, Friction("tanh", 0.05), dropped=dropped) for f in (None, 20.0)):
        trials = Trials(mindyn.Experiment(regressor.robot, [log]), regressor)
        together = scores([trials.with_folds(count) for count in (3, 5)], setting)
        alone = [Trials(mindyn.Experiment(regressor.robot, [log]), regressor, count).score(setting) for count in (3, 5)]
        assert [item.criterion for item in together] == [item.criterion for item in alone]


@pytest.mark.parametrize(
    ("asked", "selected"),
    [
        (EquationSettings(AS_LOGGED), set()),
        (EquationSettings(), {"cutoff", "velocity", "delay"}),
        (EquationSettings(Conditioning()), {"cutoff"}),
        (EquationSettings(AS_LOGGED, equations_hz="auto"), {"filter", "parameters"}),
        (EquationSettings(AS_LOGGED, friction="auto"), {"friction", "parameters"}),
        (EquationSettings.automatic(), {"cutoff", "velocity", "delay", "filter", "friction", "parameters"}),
    ],
)
def test_the_entries_that_are_auto_are_the_search_space(asked, selected):
    names = ("cutoff", "velocity", "delay", "filter", "friction", "parameters")
    space = SearchSpace(asked, is_estimator_given=True)
    assert {name for name in names if getattr(space, name)} == selected
    assert space.anything is bool(selected)
    assert SearchSpace(asked).parameters
    assert not SearchSpace(asked, is_speed_logged=False).velocity


def test_stops_are_looked_at_again_between_the_widths_tried_before():
    turning, held = (
        trial_of(AS_LOGGED, None, Friction(kind, width)) for kind, width in (("tanh", 0.05), ("stop", 1e-4))
    )
    wanted = 10.0 ** np.arange(-6, -2.9, 0.5)
    result = [stop.friction for stop in _presliding_candidates(turning, SearchSpace(EquationSettings.automatic()))]
    assert {item.direction for item in result} == {"stop"}
    np.testing.assert_allclose([item.width for item in result], wanted)
    np.testing.assert_allclose(
        [stop.friction.width for stop in _presliding_candidates(held, SearchSpace(EquationSettings.automatic()))],
        [10**-4.5, 10**-3.5],
    )
    assert _presliding_candidates(turning, SearchSpace(EquationSettings(AS_LOGGED))) == []


@pytest.mark.parametrize(("gain", "taken"), [(0.001, "tanh"), (0.01, "stop")])
def test_a_stop_operator_is_selected_only_for_a_significant_gain(gain, taken, monkeypatch):
    def known(_, setting):
        better = setting.friction.direction == "stop"
        return replace(setting, dropped=1), 0.1 * (1 - gain * better)

    monkeypatch.setattr(tune, "least_supported", known)
    monkeypatch.setattr(tune, "score_all", lambda *_: None)
    trials = SimpleNamespace(fold_count=8, timeline=SimpleNamespace(repeated=False))
    trials.with_folds = lambda _: trials
    start = trial_of(AS_LOGGED, None, Friction("tanh", 0.05))
    result = _select_essential(trials, start, SearchSpace(EquationSettings.automatic()))
    assert result.friction.direction == taken


def test_numbers_of_dropped_parameters_without_a_score_are_not_selected():
    """One folding has no error with two parameters, the other none with one, where its blocks have no torque."""
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    exact = SimpleNamespace(
        knows=lambda _: True,
        score=lambda _: None,
        squared_residuals_and_torques=lambda _: (np.array([one, zero, one]), one),
    )
    empty = SimpleNamespace(
        knows=lambda _: True,
        score=lambda _: None,
        squared_residuals_and_torques=lambda _: (np.array([one, one, one]), zero),
    )
    trial, error = least_supported([exact, empty], trial_of(AS_LOGGED, None, Friction()))
    assert (trial.dropped, error) == (0, np.inf)


def test_scores_do_not_depend_on_the_number_of_processes(monkeypatch):
    """Nor on which settings are tried at the same time; the fits are those of rows that are not held out."""
    robot = mindyn.load_robot("planar2")
    log = exact_log(robot, 1601)
    c, _ = resolve_conditioning(Conditioning(), [log], noise_floor_cutoff)
    frictions = (Friction(), Friction("tanh", 0.05))
    settings = [trial_of(c, f, friction) for f in (None, 20.0, 40.0) for friction in frictions] * 2
    result = []
    for cores in (1, 2):
        monkeypatch.setattr(workers, "usable_cores", lambda cores=cores: cores)
        trials = Trials(mindyn.Experiment(robot, [log]), Regressor(robot))
        with workers.workers(Trials.__module__, 1):
            assert workers.has_workers() == (cores > 1)
            workers.start_task(int)()  # wait for the start
            listed = score_all([trials, trials.with_folds(3)], settings)
        result.append([score for expected in listed for score in expected])
    for first, *others in zip(*result, strict=True):
        assert np.isfinite(first.criterion)
        assert all(
            np.array_equal(other.left, first.left) and np.array_equal(other.power, first.power) for other in others
        )
