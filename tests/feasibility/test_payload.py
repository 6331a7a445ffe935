"""Payloads of single runs from a saved estimate: inside their intervals, feasible, unidentifiable if unobserved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from equations import equations
from estimators.recovered import exact_samples, gains_by_load
from messages import messages
from raising import raises
from robots import random_robot

import mindyn
from mindyn.applications import calibrate_load
from mindyn.applications.payload.identify_payload import default_gain_deviation
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind
from mindyn.identification.runs_with_loads import Payload
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.regression.regressor import with_estimated_drives

CENTRE, TENSOR = np.array([0.05, -0.02, 0.1]), np.diag([0.02, 0.03, 0.025])


@pytest.fixture(scope="module")
def arm():
    return with_estimated_drives(random_robot(12, joints=4, tree=False, gravity=(0.0, 0.0, -9.81)))


def noisy(samples, seed, noise=0.2):
    rng = np.random.default_rng(seed)
    return replace(samples, tau=samples.tau + noise * rng.normal(size=samples.tau.shape))


@pytest.fixture(scope="module")
def estimate(arm):
    return mindyn.LeastSquares().fit(equations(arm, noisy(exact_samples(arm, 1500, 1), 1)))


def test_a_load_lies_inside_its_intervals(arm, estimate):
    """Of 60 runs with new noise and more friction than without the load, all ten parameters: 93 to 98 %."""
    loaded = arm.with_payload(2.0, CENTRE, TENSOR)
    truth = loaded.links[-1].phi - arm.links[-1].phi
    stiffer = replace(loaded, drives=tuple(replace(drive, coulomb=drive.coulomb + 0.4) for drive in loaded.drives))
    clean, inside = exact_samples(stiffer, 900, 2), []
    for seed in range(60):
        load = mindyn.identify_payload(estimate, noisy(clean, 100 + seed), gain_deviation=0.0)
        inside.append(np.abs(load.unconstrained - truth) <= load.half_widths)
    assert load.unidentifiable == ()
    assert load.mass == pytest.approx(2.0, rel=0.05)
    assert 0.93 <= np.mean(inside) <= 0.98


def test_a_load_is_feasible_even_if_the_fit_is_not(arm, estimate):
    point = arm.with_payload(0.05, CENTRE, 1e-6 * np.eye(3))
    load = mindyn.identify_payload(estimate, noisy(exact_samples(point, 300, 2), 7, noise=2.0))
    tensor = load.inertia_about_centre
    values = np.linalg.eigvalsh(tensor)
    assert load.mass >= -1e-9
    assert values[0] + values[1] >= values[2] - 1e-6
    assert load.unidentifiable, "a light load in much noise is not identifiable"


def test_a_run_that_no_load_explains_gives_a_finding(arm, estimate):
    """Against an estimate that already carried one, the load is negative; with another scale of one joint none fits."""
    laden = arm.with_payload(2.0, CENTRE, TENSOR)
    carrying = mindyn.LeastSquares().fit(equations(laden, noisy(exact_samples(laden, 1500, 1), 1)))
    below = mindyn.identify_payload(carrying, noisy(exact_samples(arm, 900, 2), 4))
    assert below.mass_interval[1] < 0
    assert not below.is_feasible
    loaded = exact_samples(laden, 900, 2)
    sound = mindyn.identify_payload(estimate, noisy(loaded, 5))
    assert sound.is_feasible
    assert messages(sound) == ()
    scaled = replace(loaded, tau=loaded.tau * np.array([1.0, 1.5, 1.0, 1.0]))
    (note,) = mindyn.identify_payload(estimate, noisy(scaled, 5)).findings
    assert note.kind == "unexplained torque"
    assert loaded.joint_names[1] in note.message


def test_the_frame_of_a_load_can_be_another(arm, estimate):
    loaded = arm.with_payload(2.0, CENTRE, TENSOR)
    load = mindyn.identify_payload(estimate, noisy(exact_samples(loaded, 900, 2), 3))
    pose = Pose(np.eye(3)[[1, 2, 0]], np.array([0.1, 0.2, 0.3]))
    there = load.in_frame(pose, "flange")
    assert_close(pose.apply(there.centre), load.centre, 1e-9)
    assert_close(np.linalg.eigvalsh(there.inertia_about_centre), np.linalg.eigvalsh(load.inertia_about_centre), 1e-9)


def test_gains_come_from_a_known_mass_alone(arm):
    loaded = arm.with_payload(2.0, CENTRE, TENSOR)
    gains = np.array([10.0, 20.0, 5.0, 2.0])
    runs = [exact_samples(arm, 900, 1), exact_samples(loaded, 900, 2)]
    signals = [replace(run, tau=run.tau / gains) for run in runs]
    assert_close(gains_by_load(arm, *signals, mass=2.0).values, gains, 1e-6)
    with raises(mindyn.MindynError, Code.OUT_OF_RANGE, "mass"):
        gains_by_load(arm, *signals, mass=-1.0)


def test_a_payload_needs_an_estimate(arm):
    with raises(mindyn.MindynError, Code.WRONG_TYPE, "estimate"):
        mindyn.identify_payload(arm, exact_samples(arm, 300, 1))


def test_unobserved_parameters_of_a_load_do_not_bias_the_others():
    planar = with_estimated_drives(mindyn.load_robot("planar2"))
    loaded = planar.with_payload(5.0, np.array([0.1, 0.0, 0.0]), 0.01 * np.eye(3))
    known = mindyn.LeastSquares().fit(equations(planar, noisy(exact_samples(planar, 800, 1), 1)))
    load = mindyn.identify_payload(known, noisy(exact_samples(loaded, 800, 2), 2))
    assert {"mcz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz"} <= set(load.unidentifiable)
    low, high = load.mass_interval
    assert low <= 5.0 <= high
    assert high - low < 0.3
    assert low <= load.mass <= high, "the load that can exist lies where the run put it"


def test_unidentifiable_parameters_of_the_estimate_do_not_bias_the_load():
    """An arm identified with all joints in phase: held at what that fit gave, its open parameters halved the load."""
    arm = with_estimated_drives(mindyn.load_robot("ur10"))
    loaded = arm.with_payload(2.0, np.array([0.02, 0.01, 0.06]), 0.0018 * np.eye(3))

    def run(robot, seed, frequencies):
        rng, t = np.random.default_rng(seed), np.arange(0, 20, 0.02)[:, None]
        waves = [(w, rng.uniform(0, 6.28, 6) * (len(frequencies) > 1)) for w in frequencies]
        q, qd, qdd = (sum(0.3 * w**k * np.sin(t * w + p + k * np.pi / 2) for w, p in waves) for k in range(3))
        tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.02, q.shape)
        return mindyn.Samples(robot.joint_names, q, qd, qdd, tau, 50.0, np.zeros(len(q), int))

    in_phase = mindyn.LeastSquares(covariance="correlated").fit(equations(arm, run(arm, 1, [1.3])))
    assert in_phase.values.unidentifiable
    load = mindyn.identify_payload(in_phase, run(loaded, 2, [0.7, 1.9, 3.1, 2.3]))
    low, high = load.mass_interval
    assert low <= 2.0 <= high
    assert high - low < 0.2 or "m" in load.unidentifiable


def currents(samples, robot, gains, **metadata):
    """Return a log of the samples whose torque is a current times its gain."""
    t = np.arange(len(samples)) / samples.rate_hz
    log = mindyn.log_from_arrays(robot.joint_names, t, samples.q, samples.tau, samples.qd, samples.qdd)
    return replace(log, metadata=replace(log.metadata, current_gains=gains, **metadata))


def test_currents_have_uncertain_gains(arm, estimate):
    loaded = exact_samples(arm.with_payload(2.0, CENTRE, TENSOR), 900, 2)
    ones = [1.0] * 4
    torques, current = currents(loaded, arm, None), currents(loaded, arm, ones)
    assert [default_gain_deviation(run) for run in (loaded, torques, current)] == [0.01, 0.01, 0.07]
    logged = estimate.with_data(settings=replace(estimate.settings, conditioning=AS_LOGGED))
    load = mindyn.identify_payload(logged, current)
    assert load.gain_deviation == 0.07
    assert load.half_widths[0] > 1.9 * 0.07 * 2.0


def test_a_weighed_load_calibrates_the_scale(arm, estimate):
    """Torques logged 8 % too large, in the estimate too: other loads are right after one was weighed."""
    too_large = mindyn.LeastSquares().fit(
        equations(arm, replace(free := noisy(exact_samples(arm, 1500, 1), 1), tau=1.08 * free.tau))
    )

    def run(mass, seed):
        loaded = noisy(exact_samples(arm.with_payload(mass, CENTRE, TENSOR), 900, seed), seed)
        return replace(loaded, tau=1.08 * loaded.tau)

    calibration = calibrate_load(too_large, run(3.0, 5), 3.0)
    assert calibration.factor == pytest.approx(1 / 1.08, abs=3 * calibration.deviation)
    assert calibration.deviation < 0.02
    raw, right = (
        mindyn.identify_payload(too_large, run(2.0, 6), gain_deviation=0.07, calibration=c) for c in (None, calibration)
    )
    assert raw.mass == pytest.approx(2.16, rel=0.02)
    assert right.mass == pytest.approx(2.0, rel=0.02)
    assert right.mass_interval[0] < 2.0 < right.mass_interval[1]
    assert right.half_widths[0] < 0.6 * raw.half_widths[0]
    for mass in (0.0, -1.0, np.nan):
        with raises(InputError, Code.OUT_OF_RANGE, "mass"):
            calibrate_load(estimate, run(2.0, 6), mass)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "mass"):
        calibrate_load(too_large, replace(free, tau=1.08 * free.tau), 3.0)


def test_a_motion_that_does_not_determine_the_mass_has_a_finding(arm, estimate):
    """A residual that is not noise moves the mass; the motion of the last joint alone hardly lifts the load."""
    loaded = exact_samples(arm.with_payload(2.0, CENTRE, TENSOR), 900, 2)
    wide = mindyn.identify_payload(estimate, noisy(loaded, 4))
    assert Kind.UNDETERMINED_MASS not in {finding.kind for finding in wide.findings}
    still = np.tile(loaded.q[0], (len(loaded), 1))
    moving = np.arange(4) == 3
    scale = np.where(moving, 1.0, 0.02)
    q, qd, qdd = still + scale * (loaded.q - still), scale * loaded.qd, scale * loaded.qdd
    carrying = arm.with_payload(2.0, CENTRE, TENSOR)
    tau = mindyn.compile_model(carrying, with_drives=True).inverse_dynamics(q, qd, qdd)
    ripple = 5.0 * np.sin(3 * q[:, 3:] + np.arange(4))
    run = noisy(replace(loaded, q=q, qd=qd, qdd=qdd, tau=tau + ripple), 4, noise=0.02)
    narrow = mindyn.identify_payload(estimate, run)
    (finding,) = [finding for finding in narrow.findings if finding.kind is Kind.UNDETERMINED_MASS]
    assert finding.value > 2.0
    assert finding.remedy
    assert "m" in narrow.unidentifiable


def test_encoder_noise_of_still_joints_does_not_determine_the_mass(arm, estimate):
    """The torque of the arm that noise predicts at joints at rest is wrong; a load of negative mass would cancel it."""
    rng, loaded = np.random.default_rng(5), exact_samples(arm, 900, 2)
    moving = np.arange(4) == 3
    q, qd, qdd = np.where(moving, loaded.q, loaded.q[0]), moving * loaded.qd, moving * loaded.qdd
    carrying = arm.with_payload(2.0, CENTRE, TENSOR)
    tau = mindyn.compile_model(carrying, with_drives=True).inverse_dynamics(q, qd, qdd)
    q, qd, qdd = (x + size * rng.normal(size=q.shape) for x, size in ((q, 1e-5), (qd, 1e-3), (qdd, 0.1)))
    load = mindyn.identify_payload(estimate, noisy(replace(loaded, q=q, qd=qd, qdd=qdd, tau=tau), 4, noise=0.02))
    assert Kind.UNDETERMINED_MASS in {finding.kind for finding in load.findings}
    assert "m" in load.unidentifiable
    assert load.is_feasible


def test_uncertain_gains_widen_the_interval_of_the_mass(arm, estimate):
    loaded = noisy(exact_samples(arm.with_payload(2.0, CENTRE, TENSOR), 900, 2), 3)
    sharp, wide = (mindyn.identify_payload(estimate, loaded, gain_deviation=item) for item in (0.0, 0.1))
    assert wide.half_widths[0] > 2 * sharp.half_widths[0]
    scaled = replace(loaded, tau=1.1 * loaded.tau)
    both = mindyn.LeastSquares().fit(
        equations(arm, replace(exact := noisy(exact_samples(arm, 1500, 1), 1), tau=1.1 * exact.tau))
    )
    heavier = mindyn.identify_payload(both, scaled, gain_deviation=0.0)
    assert heavier.mass == pytest.approx(2.2, rel=0.02), "gains 10 % off in both make the load 10 % off"
    with raises(mindyn.MindynError, Code.OUT_OF_RANGE, "gain_deviation"):
        mindyn.identify_payload(estimate, loaded, gain_deviation=-1.0)


def test_the_mass_of_a_feasible_load_lies_in_its_interval():
    """The nearest feasible load may be lighter than the interval of a fit that hardly determines the mass."""
    phi = np.array([1.72, 0.1, 0.0, 0.0, 0.02, 0.0, 0.02, 0.0, 0.0, 0.02])
    covariance = np.diag([2.2, *[0.5] * 3, *[0.1] * 6])
    load = Payload("hand", phi, covariance, (), 1.96, (), np.array([4.87, *[0.0] * 9]))
    assert load.is_feasible
    low, high = load.mass_interval
    assert low <= load.mass <= high
