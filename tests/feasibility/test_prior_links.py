"""Links of a robot that serve as a prior: no placeholders, and no body without a width."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import SAME_ALGEBRA, assert_close

from mindyn.foundation.algebra.inertia import phi_about_origin, pseudo_inertia
from mindyn.identification.feasibility.conditions.priors import MIN_GYRATION_RADIUS_M, build_prior
from mindyn.robots.loading import load_robot


def second_moments(phi):
    """Second moments of mass about the centre, along the axes of the body, smallest first."""
    P = pseudo_inertia(phi)
    return np.linalg.eigvalsh(P[:3, :3] - np.outer(P[:3, 3], P[:3, 3]) / phi[0])


def test_a_rod_is_given_a_width_and_keeps_mass_centre_and_length():
    robot = load_robot("puma560")
    mass, centre, turn = 3.0, np.array([0.3, -0.2, 0.1]), np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    rod = phi_about_origin(mass, centre, turn @ np.diag([0.0, 0.4, 0.4]) @ turn.T)
    links = (replace(robot.links[0], phi=rod), *robot.links[1:])
    prior = build_prior(robot, replace(robot, links=links))
    result, stated = prior.links[0], robot.links[1].phi
    assert_close(result[:4], rod[:4], SAME_ALGEBRA)
    least = mass * MIN_GYRATION_RADIUS_M**2 / 3
    assert_close(second_moments(result), [least, least, 0.4], SAME_ALGEBRA)
    assert any("thinner than 10 mm" in note for note in prior.notes)
    assert (prior.links[1] == stated).all()


def test_links_without_information_are_not_a_prior():
    robot = load_robot("puma560")
    unit = phi_about_origin(1.0, np.zeros(3), np.eye(3))
    links = (replace(robot.links[0], phi=unit), replace(robot.links[1], phi=np.zeros(10)), *robot.links[2:])
    prior = build_prior(robot, replace(robot, links=links))
    stated = build_prior(robot, "robot").links
    assert [value is None for value in prior.links] == [True, True, *(item is None for item in stated[2:])]
    assert stated[0] is not None or stated[3] is not None
    assert [link is None for link in build_prior(robot, None).links] == [True] * 6
