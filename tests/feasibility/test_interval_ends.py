"""Dropped parameters, prior links, missing intervals and bounds are preserved.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, assert_close
from equations import equations
from estimators.recovered import exact_samples
from robots import random_robot, with_random_drives
from stand_in import stand_in

from mindyn.applications.payload.identify_payload import _misfit_findings
from mindyn.identification.estimators.estimate_records import Physical
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.checks.positive_definite import check_positive_definite
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.priors import Prior
from mindyn.identification.feasibility.conditions.user_bounds import Bounds
from mindyn.identification.feasibility.fits.constrained_fit import FitProblem
from mindyn.identification.feasibility.full_models import full_model
from mindyn.identification.feasibility.physical_intervals import physical_ends
from mindyn.identification.feasibility.projections.consistent_projection import make_feasible
from mindyn.identification.prediction.torque_bands import torque_bands
from mindyn.robots.loading import load_robot


@pytest.fixture(scope="module")
def samples():
    return exact_samples(ROBOT, 120, noise=0.5)


ROBOT = with_random_drives(random_robot(7, joints=2, tree=False, gravity=(0.0, 0.0, -9.81)), 7)


@pytest.fixture(scope="module")
def rows(samples):
    return equations(ROBOT, samples)


@pytest.fixture(scope="module")
def estimate(rows):
    return LeastSquares().fit(rows)


@pytest.fixture(scope="module")
def space(estimate):
    return space_of(estimate.regressor)


def links_of(space):
    return tuple(np.asarray(link.phi) for link in space.robot.links)


def test_parameters_fixed_at_zero_are_exactly_zero(rows, estimate, space):
    held = tuple(k for k, label in enumerate(space.labels) if label in ("fv1", "fo2"))
    assert len(held) == 2
    problem = FitProblem(space, Prior(links_of(space), "entropic", ()), zero=held, compact=False)
    weights = estimate.data.joint_weights
    assert (problem.solve(rows.information, weights, 1e-3)[list(held)] == 0).all()
    free = replace(problem, zero=()).solve(rows.information, weights, 1e-3)
    assert np.abs(free[list(held)]).min() > 0


def test_a_projection_keeps_the_prior_and_the_unconstrained_values(estimate, space):
    before = estimate.beta - 3 * estimate.deviations
    x = np.linalg.pinv(space.matrix) @ estimate.beta
    held = estimate.with_values(physical=Physical(space.labels, x, before, ("link1", "link2")))
    for given, links, free in ((held, ("link1", "link2"), before), (estimate, (), estimate.beta)):
        projected = make_feasible(given)
        assert projected.values.physical.prior_links == links
        assert_close(projected.values.physical.unconstrained, free, EXACT)
        assert_close(projected.beta, space.matrix @ projected.values.physical.values, ORACLE)
        assert projected.values.projected


def test_only_identifiable_parameters_have_intervals(estimate):
    wide = estimate.covariance.copy()
    wide[0, :] = wide[:, 0] = 0.0
    wide[0, 0] = np.inf
    ends = physical_ends(estimate.with_uncertainty(covariance=wide))
    assert np.isnan(ends[:, 0]).all()
    assert np.isfinite(ends[:, 1:]).all()
    assert (ends[0, 1:] < ends[1, 1:]).all()
    nothing = estimate.with_uncertainty(covariance=np.diag(np.full(len(estimate.beta), np.inf)))
    assert np.isnan(physical_ends(nothing)).all()
    named = physical_ends(estimate.with_values(dropped=(estimate.names[1],), unidentifiable=(estimate.names[2],)))
    assert np.isnan(named).all(axis=0).tolist() == [k in (1, 2) for k in range(len(estimate.beta))]


def test_bands_of_torque_are_those_of_the_covariance(estimate, samples):
    """Against rows Y C Y^T one by one; an unidentifiable parameter leaves its joints without a band."""
    few = samples.take(slice(0, 12))
    n, p = few.q.shape[1], len(estimate.beta)
    Y = np.stack([estimate.with_values(beta=unit).predict(few) for unit in np.eye(p)], axis=-1)
    wide = estimate.uncertainty.quantile * np.sqrt(np.einsum("tip,pq,tiq->ti", Y, estimate.covariance, Y))
    low, high = torque_bands(estimate, few)
    middle = estimate.predict(few)
    assert_close((low + high) / 2, middle, ORACLE)
    assert (high - low >= 2 * wide * (1 - 1e-6)).all()
    noisy = torque_bands(estimate, few, noise=True)
    added = ((noisy[1] - noisy[0]) / 2) ** 2 - ((high - low) / 2) ** 2
    rms = np.array([residual.rms for residual in estimate.data.residuals])
    assert_close(added, np.tile((estimate.uncertainty.quantile * rms) ** 2, (12, 1)), 1e-6)
    loose = estimate.covariance.copy()
    k = int(np.flatnonzero([(Y[:, :, j] == 0).all(axis=0).any() for j in range(p)])[0])
    loose[k, :] = loose[:, k] = 0.0
    loose[k, k] = np.inf
    open_low, open_high = torque_bands(estimate.with_uncertainty(covariance=loose), few)
    assert n == 2
    assert np.array_equal(np.isinf(open_high - open_low), Y[:, :, k] != 0)


def test_bounds_are_satisfied_only_if_all_of_them_are(space):
    links = space.robot.link_names
    x = np.zeros(space.size)
    x[space.masses] = 2.0
    heavy = Bounds(masses={links[0]: (3.0, 4.0)}, symmetric={links[1]: "xz"})
    light = Bounds(masses={links[0]: (1.0, 4.0)}, symmetric={links[1]: "xz"})
    assert light.are_satisfied(space, x)
    assert not heavy.are_satisfied(space, x)
    x[space.link(1).start + 2] = 0.1  # mcy
    assert not light.are_satisfied(space, x)


def test_through_loops_that_are_solved_fewer_configurations_are_looked_at(monkeypatch):
    monkeypatch.setattr("mindyn.identification.feasibility.checks.positive_definite.MAX_LOOP_CONFIGURATIONS", 5)
    for robot, expected in ((load_robot("slider_crank"), 5), (load_robot("planar2"), 9)):
        assert check_positive_definite(robot, count=9).witness["configurations"] == expected


def test_a_run_is_suspect_if_it_fits_far_worse_than_the_logs_of_the_estimate():
    usual = [SimpleNamespace(rms=item) for item in (1.0, 1.0, 1.0, 0.0)]
    result = stand_in(residuals=usual)
    run = SimpleNamespace(joint_names=("a", "b", "c", "d"), tau=np.tile([10.0, 10.0, 1e3, 10.0], (5, 1)))
    assert (
        _misfit_findings(result, run, np.array([3.9, 3.9, 9.0, 9.0])) == []
    )  # 9 of 1000 N m is little, of rms 0 unknown
    (note,) = _misfit_findings(result, run, np.array([4.1, 3.9, 9.0, 9.0]))
    assert note.kind == "unexplained torque"
    assert "large residual at a (4.1 times)" in note.message
    (both,) = _misfit_findings(result, run, np.array([5.0, 6.0, 51.0, 0.0]))
    assert "a (5 times), b (6 times)" in both.message
    assert "c (51 times)" in both.message


@pytest.mark.parametrize("edge", [0.0, 0.3, 0.95])
def test_a_model_outside_is_moved_just_as_far_as_it_must_be(edge):
    """Along the line to one that is inside, to where the inside begins."""
    line = SimpleNamespace(is_inside=lambda x: x[0] >= edge, move_inside=lambda x: x)
    result = full_model._move_inside(line, np.array([-1.0, 2.0]), np.array([1.0, 4.0]))
    assert line.is_inside(result)
    assert_close(result, [edge, 3.0 + edge], 1e-3)
    assert full_model._move_inside(line, np.array([edge, 2.0]), np.array([1.0, 4.0])).tolist() == [edge, 2.0]


def test_a_fit_that_is_near_its_prior_is_its_own_full_model(estimate, space, monkeypatch):
    """Links that were fitted near to a prior, all of them, stay; others are made anew."""
    x = np.concatenate([np.concatenate(links_of(space)), np.full(space.size - 20, 0.3)])
    names, asked = space.robot.link_names, []
    monkeypatch.setattr(full_model, "_complete_parameters", lambda *given, **_: asked.append(given[3]) or x)
    monkeypatch.setattr(full_model, "_build_robot", lambda *given, **_: given[2])
    for links, prior, anew in ((names, "robot", False), (names[:1], "robot", True), (names, None, True)):
        asked.clear()
        held = estimate.with_values(beta=space.matrix @ x, physical=Physical(space.labels, x, estimate.beta, links))
        assert_close(full_model.build_full_model(held, prior=prior), x, EXACT)
        assert asked == ([prior] if anew else [])


def test_a_table_lists_the_interval_of_each_parameter(estimate):
    names = estimate.names
    wide = estimate.covariance.copy()
    wide[1, :] = wide[:, 1] = 0.0
    wide[1, 1] = np.inf
    result = (
        estimate.with_values(dropped=(names[0],), unidentifiable=(names[1],))
        .with_uncertainty(covariance=wide)
        .table()
        .splitlines()
    )
    by_name = {line.split()[0]: line for line in result if line.strip()}
    assert "dropped" in by_name[names[0]]
    assert "unidentifiable" in by_name[names[1]]
    assert " to " in by_name[names[2]]
