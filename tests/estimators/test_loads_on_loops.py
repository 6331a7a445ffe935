"""Loads that robots with loops carry, and gains of their drives: found in the primary joints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close, assert_negligible
from estimators.recovered import gains_by_load
from raising import raises

import mindyn
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.notation import LINK_PARAMETERS
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.controllers import SineMotion
from mindyn.robots.edits import find_load_carrier
from mindyn.robots.parts import Drive

RECOVERED = 1e-6
LOAD = (3.0, np.array([0.03, -0.02, 0.05]), np.diag([0.01, 0.02, 0.015]))
AT = {"palletiser": None, "five_bar": "link3"}


def runs(name):
    """A robot with drives, and the samples of one motion without and with the load; the load's parameters."""
    robot = mindyn.load_robot(name)
    drives = tuple(Drive(name, viscous=2.0, coulomb=1.0, rotor_inertia=0.05) for name in robot.primary_names)
    robot, n = replace(robot, drives=drives), robot.joint_count
    centre = [0.0, 0.1, -1.3] if name == "five_bar" else np.full(n, 0.2)
    frequency, phase = np.linspace(0.4, 2.1, 3 * n).reshape(3, n), np.arange(3.0 * n).reshape(3, n)
    q, qd, qdd = SineMotion(centre, np.full((3, n), 0.12), frequency, phase).rows(np.arange(600) / 100)
    carrier = find_load_carrier(robot, AT[name])
    created = []
    for item in (robot, robot.with_payload(*LOAD, at=carrier)):
        tau = mindyn.compile_model(item, with_drives=True).inverse_dynamics(q, qd, qdd)
        created.append(Samples(robot.primary_names, q, qd, qdd, tau, 100.0, np.zeros(len(q), dtype=np.int64)))
    return robot, *created, phi_about_origin(*LOAD)


@pytest.mark.parametrize("name", AT)
def test_the_load_and_the_gains_are_found(name):
    robot, unloaded, loaded, phi = runs(name)
    rng = np.random.default_rng(0)
    noisy = [replace(run, tau=run.tau + rng.normal(0, 1e-4, run.tau.shape)) for run in (unloaded, loaded)]
    estimate = mindyn.LeastSquares().fit(mindyn.build_rows(robot, noisy[0]))
    result = mindyn.identify_payload(estimate, noisy[1], link=AT[name], gain_deviation=0.0)
    known = [k for k, label in enumerate(LINK_PARAMETERS) if label not in result.unidentifiable]
    assert 0 in known
    assert (np.abs(result.unconstrained - phi)[known] < 2 * result.half_widths[known]).all()
    assert_negligible((result.phi - phi)[:4], np.abs(phi).max(), 1e-3)
    gains = np.linspace(0.5, 2.0, robot.joint_count)
    signals = [replace(item, tau=item.tau / gains) for item in (unloaded, loaded)]
    known_gains = gains_by_load(robot, *signals, mass=LOAD[0], link=AT[name])
    assert known_gains.joint_names == robot.primary_names
    assert_close(known_gains.values, gains, RECOVERED)


def test_the_end_that_no_loop_holds_carries_the_load_or_it_is_asked_for():
    assert find_load_carrier(mindyn.load_robot("palletiser"), None) == "link4"
    with raises(InputError, Code.AMBIGUOUS, "link"):
        find_load_carrier(mindyn.load_robot("five_bar"), None)
