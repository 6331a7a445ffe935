"""Logs of one robot with different loads are told from logs of different motions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from identification.test_candidates import recorded

import mindyn
from mindyn.identification.changed_loads import load_doubts
from mindyn.regression.rows import rows_of

SETTINGS = mindyn.Treatment(
    mindyn.Conditioning(position_cutoff_hz=None, delay_s=0.0), friction=mindyn.Friction("tanh", 0.05)
)


@pytest.fixture(scope="module")
def arm():
    return replace(mindyn.load_robot("planar2"), drives=(), extras=())


def doubts(arm, *carried):
    """Of logs of different motions; carried: mass in kg and how far out it is held."""
    logs = []
    for k, (mass, out) in enumerate(carried):
        robot = arm.with_payload(mass=mass, com=(out, 0.0, 0.0), inertia=0.02 * np.eye(3)) if mass else arm
        logs.append(recorded(robot, 12.0, 9.0 + 2 * k, noise=0.02, seed=k))
    rows = rows_of(arm, logs, SETTINGS)
    return load_doubts(mindyn.LeastSquares().fit(rows), rows)


def test_the_log_with_the_load_is_named_with_its_mass(arm):
    (said,) = doubts(arm, (0.0, 0.0), (0.0, 0.0), (12.0, 0.3))
    assert said.startswith("log 3 was recorded with another load than the rest (+1")
    assert float(said.split("(")[1].split(" kg")[0]) == pytest.approx(12.0, abs=1.5)
    (said,) = doubts(arm, (12.0, 0.3), (0.0, 0.0))
    assert said.startswith("log 1 was recorded with another load than the rest (+1")


def test_a_load_that_is_held_otherwise_is_no_other_mass(arm):
    (said,) = doubts(arm, (12.0, 0.0), (12.0, 0.6))
    assert "or the same held otherwise" in said


def test_other_motions_are_no_other_loads(arm):
    assert doubts(arm, (12.0, 0.3), (12.0, 0.3), (12.0, 0.3)) == []
    assert doubts(arm, (0.0, 0.0)) == []


def test_a_load_that_is_taken_up_on_the_way_is_named(arm):
    loaded = arm.with_payload(mass=12.0, com=(0.3, 0.0, 0.0), inertia=0.02 * np.eye(3))
    before, after = (recorded(robot, 24.0, 9.0, noise=0.02, seed=3) for robot in (arm, loaded))
    half = len(before) // 2
    log = replace(before, tau=np.concatenate([before.tau[:half], after.tau[half:]]))
    rows = rows_of(arm, log, SETTINGS)
    (said,) = load_doubts(mindyn.LeastSquares().fit(rows), rows)
    assert said.startswith("from about 50 % of log 1 on the arm had another load than before (+1")
    whole = rows_of(arm, before, SETTINGS)
    assert load_doubts(mindyn.LeastSquares().fit(whole), whole) == []
