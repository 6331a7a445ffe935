"""The automatic choice: phases are held out together, and the fit that predicts held-out rows is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mindyn
from mindyn.foundation.findings import Kind
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.selection.candidates import Candidate
from mindyn.identification.selection.choose import best_estimator, choose, decide_between, select_simplest_candidate
from mindyn.identification.selection.scores import TrialScore
from mindyn.identification.selection.trials import Trial, Trials
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import log_from_arrays
from mindyn.logs.samples import segment_ends
from mindyn.regression.condition_groups import group_by_conditions
from mindyn.regression.friction import Friction
from mindyn.regression.regressor import build_regressor, with_estimated_drives
from mindyn.regression.settings import EquationSettings

RATE_HZ = 100.0


def record_log(robot, seconds, period_s, noise=0.02, seed=0, size=0.6):
    """A log of the arm on a random Fourier motion."""
    rng = np.random.default_rng(seed)
    n = robot.joint_count
    time = np.arange(0, seconds, 1 / RATE_HZ)
    rates = 2 * np.pi * np.arange(1, 5) / period_s
    sines, cosines = rng.normal(0, size / 2, (2, 4, n))
    angles = np.outer(time, rates)
    q = np.sin(angles) @ sines + np.cos(angles) @ cosines
    qd = (np.cos(angles) * rates) @ sines - (np.sin(angles) * rates) @ cosines
    qdd = -(np.sin(angles) * rates**2) @ sines - (np.cos(angles) * rates**2) @ cosines
    tau = np.asarray(mindyn.build_equation(robot, "inverse_dynamics")(q.T, qd.T, qdd.T)).T
    scale = np.sqrt((tau**2).mean(axis=0))
    tau = tau + scale * (0.1 * np.tanh(qd / 0.05) + noise * rng.normal(size=q.shape))
    return log_from_arrays(robot.joint_names, time, q, tau, qd)


@pytest.fixture(scope="module")
def arm():
    return replace(mindyn.load_robot("planar2"), drives=(), extras=())


def trials_of(robot, logs, folds=8):
    equation_settings = EquationSettings(Conditioning(motion_hz=None), friction=Friction("tanh", 0.05))
    regressor = build_regressor(with_estimated_drives(robot), equation_settings)
    return Trials(mindyn.Experiment(robot, logs), regressor, folds), equation_settings


def test_rows_of_one_phase_are_held_out_together(arm):
    log = record_log(arm, 30.0, 10.0)
    trials, equation_settings = trials_of(arm, [log])
    created = trials.samples(resolve(equation_settings))
    labels = trials._labels(created, segment_ends(created.samples.segments))
    later = round(10.0 * RATE_HZ)
    assert (labels[later:] == labels[:-later]).mean() > 0.98
    assert len(np.unique(labels)) == 8


def test_motions_that_do_not_repeat_are_cut_into_contiguous_blocks(arm):
    trials, equation_settings = trials_of(arm, [record_log(arm, 20.0, 40.0)])
    created = trials.samples(resolve(equation_settings))
    labels = trials._labels(created, segment_ends(created.samples.segments))
    assert (np.diff(labels) >= 0).all()
    assert len(np.unique(labels)) == 8


def test_held_out_phases_predict_the_error_on_another_motion_better(arm):
    """A spring that the robot does not state bends the model: on its own motion it fits, on others it does not."""
    log = record_log(arm, 40.0, 10.0)
    bent = replace(log, tau=log.tau + 30.0 * np.sin(3 * log.q))
    repeated, equation_settings = trials_of(arm, [bent])
    blind = Trials(mindyn.Experiment(repeated.regressor.robot, [bent]), repeated.regressor)
    blind.__dict__["timeline"] = replace(repeated.timeline, repeats=1.0)
    trial = Trial(replace(equation_settings, conditioning=resolve(equation_settings), friction=Friction("tanh", 0.05)))
    assert repeated.score(trial).total > 1.1 * blind.score(trial).total


def resolve(settings):
    return replace(settings.conditioning, rate_hz=RATE_HZ, delay_s=0.0)


def select(robot, log, settings=None):
    trials, usual = trials_of(robot, [log])
    trial = Trial(replace(usual, conditioning=resolve(usual), friction=Friction("tanh", 0.05)))
    wanted = replace(usual, conditioning=resolve(usual), drive_parameters="estimated")
    return best_estimator(trials, trial, settings or wanted, ())


def test_a_weak_log_is_fitted_with_the_prior_of_its_file():
    arm = replace(mindyn.load_robot("ur10"), drives=(), extras=())
    estimator, _, notes = select(arm, record_log(arm, 6.0, 20.0, noise=0.1, size=0.3))
    assert isinstance(estimator, PhysicallyConsistent)
    assert estimator.prior == "robot"
    assert notes[0].kind == Kind.SELECTED_ESTIMATOR
    assert "a physically consistent fit was selected" in notes[0].message


def test_a_file_without_inertials_has_no_prior(arm):
    bare = replace(arm, links=tuple(replace(link, phi=None) for link in arm.links))
    estimator, _, _ = select(bare, record_log(arm, 20.0, 40.0))
    assert isinstance(estimator, PhysicallyConsistent)
    assert estimator.prior_weight == 0.0


def test_data_that_contradict_the_robot_have_a_finding(arm):
    log = record_log(arm, 20.0, 40.0, noise=1e-3)
    _, _, notes = select(arm, replace(log, tau=-log.tau))
    assert any(note.kind == Kind.INCONSISTENT_DATA for note in notes)
    estimator, _, notes = select(arm, log)
    assert isinstance(estimator, PhysicallyConsistent)
    assert not any(note.kind == Kind.INCONSISTENT_DATA for note in notes)


def test_least_squares_is_selected_if_consistent_values_are_much_worse(arm):
    log = record_log(arm, 20.0, 10.0, noise=1e-3, seed=3)
    turned = log.tau - 200.0 * np.gradient(log.qd, 1 / RATE_HZ, axis=0)  # as if its inertia were negative
    estimator, _, notes = select(arm, replace(log, tau=turned))
    assert isinstance(estimator, LeastSquares)
    assert "physical consistency costs" in notes[0].message


def build_candidate(error, elsewhere=None, shapes=(), **further):
    """A candidate with these relative errors on blocks and under held-out conditions."""

    def score(size):
        return TrialScore(size**2 * np.ones((8, 2)), np.ones((8, 2)))

    settings = EquationSettings(friction=Friction("tanh", 0.05, shapes))
    conditions = [] if elsewhere is None else [score(elsewhere)]
    return Candidate("", settings, LeastSquares(), np.zeros(1), [score(error)], conditions, **further)


def test_the_simplest_fit_is_selected_unless_its_loss_is_a_twentieth_larger():
    rich, bare = build_candidate(0.1, shapes=("stribeck",)), build_candidate(0.104, has_offsets=False)
    assert select_simplest_candidate([rich, bare]) is bare
    worse = build_candidate(0.106, has_offsets=False)
    assert select_simplest_candidate([rich, worse]) is rich
    with_offsets = build_candidate(0.1)
    assert select_simplest_candidate([rich, with_offsets, bare]) is bare
    assert select_simplest_candidate([rich, with_offsets, worse]) is with_offsets


def test_consistency_may_cost_a_tenth_of_the_loss_and_errors_elsewhere_count():
    plain = build_candidate(0.1, 0.1)
    for error, elsewhere, is_selected in ((0.109, 0.109, True), (0.112, 0.112, False), (0.12, 0.09, True)):
        consistent = build_candidate(error, elsewhere)
        assert (decide_between([plain], [consistent])[0] is consistent) == is_selected
    assert decide_between([plain], []) == (plain, plain, None)


def test_conditions_at_the_ends_of_the_range_are_held_out(arm):
    log = record_log(arm, 20.0, 40.0)
    trials, settings = trials_of(arm, [log])
    samples = trials.samples(resolve(settings)).samples
    groupings = {grouping.condition: grouping for grouping in group_by_conditions(samples, samples.tau)}
    assert set(groupings) == {"speed", "load", "posture", "direction"}
    speed = np.linalg.norm(samples.qd / np.sqrt((samples.qd**2).mean(axis=0)), axis=1)
    fastest = groupings["speed"].labels == groupings["speed"].held_out[0]
    assert speed[fastest].min() >= speed[~fastest].max()
    assert abs(fastest.mean() - 0.25) < 0.01


def test_constant_conditions_have_no_groups(arm):
    log = record_log(arm, 20.0, 40.0)
    trials, settings = trials_of(arm, [log])
    samples = trials.samples(resolve(settings)).samples
    still = samples.replace_rows(qd=np.ones_like(samples.qd))
    assert {g.condition for g in group_by_conditions(still, np.zeros_like(still.tau))} == {"posture"}


def test_a_short_log_without_offsets_is_fitted_without_them(arm):
    log = record_log(arm, 6.0, 20.0, noise=0.05, seed=2)
    estimate = mindyn.identify(arm, log)
    offsets = [k for k, parameter in enumerate(estimate.parameters) if parameter.kind == "offset"]
    assert offsets
    assert not estimate.beta[offsets].any()


def test_a_repeated_motion_is_reported_and_given_settings_are_not_selected(arm):
    log = record_log(arm, 30.0, 10.0)
    usual = EquationSettings(Conditioning(motion_hz=None), friction=Friction("tanh", 0.05))
    choice = choose(arm, log, LeastSquares(), usual)
    assert isinstance(choice.estimator, LeastSquares)
    assert any(note.kind == Kind.REPEATED_MOTION and "10 s repeats" in note.message for note in choice.findings)
