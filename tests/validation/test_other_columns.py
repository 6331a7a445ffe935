"""Logs with other columns than those of the fit, and arguments of the wrong type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from raising import raises

import mindyn
from mindyn.applications.contact.detection import contact_thresholds
from mindyn.cli.runs import find_missing_velocity
from mindyn.foundation.errors import Code, InputError
from mindyn.regression.settings import EquationSettings

ROBOT = mindyn.load_robot("planar2")
RATE = 200.0


def run(seed, seconds=12.0):
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    w, p = 2 * np.pi * rng.uniform(0.2, 0.6, (2, 3)), rng.uniform(0, 6, (2, 3))
    phase = t[:, None, None] * w + p
    q, qd, qdd = (a.sum(axis=-1) for a in (np.sin(phase), w * np.cos(phase), -(w**2) * np.sin(phase)))
    tau = mindyn.compile_model(ROBOT, with_drives=True).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.5, q.shape)
    return mindyn.log_from_arrays(ROBOT.joint_names, t, q, tau, qd, name=f"run{seed}.csv")


@pytest.fixture(scope="module")
def estimate():
    settings = mindyn.Conditioning(motion_hz=20.0, delay_s=0.0, velocity="measured")
    return mindyn.identify(ROBOT, [run(1), run(2)], mindyn.LeastSquares(), EquationSettings(settings))


def test_a_log_without_velocity_is_differentiated(estimate):
    whole, bare = run(3), replace(run(3), qd=None)
    inside = slice(40, -40)  # at its ends a log has no neighbours to be differentiated with
    assert_close(estimate.predict_log(bare)[inside], estimate.predict_log(whole)[inside], 1e-2)
    loads = [mindyn.identify_payload(estimate, log) for log in (bare, whole)]
    for load in loads:  # none, to a thousandth of the link's 50 kg
        assert np.abs(load.unconstrained[:3]).max() < 0.05
    bounds = contact_thresholds(estimate, [bare]).moving
    assert (bounds < 0.1 * np.abs(whole.tau).max(axis=0)).all()
    assert find_missing_velocity(estimate.settings.conditioning, [whole]) == []
    (note,) = find_missing_velocity(estimate.settings.conditioning, [whole, bare])
    assert note.message.startswith("run3.csv has no velocity")


def test_wrong_types_raise_with_a_hint(estimate):
    with raises(InputError, Code.WRONG_TYPE, "logs"):
        mindyn.validate(estimate, "run.csv")
    with raises(InputError, Code.WRONG_TYPE, "logs"):
        mindyn.identify(ROBOT, "run.csv")
    with raises(InputError, Code.WRONG_TYPE, "estimate"):
        mindyn.check_feasible(ROBOT)
    with raises(InputError, Code.WRONG_TYPE, "estimate"):
        mindyn.identify_payload(ROBOT, run(1))
