"""Parts of loads, descents and cuts, compared with sums computed here and known minima.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import EXACT, ORACLE, SAME_ALGEBRA, SOLVED, assert_close
from stand_in import stand_in

from mindyn.applications.payload import identify_payload
from mindyn.applications.payload.identify_payload import (
    _correlated_rows,
    _gain_shifts,
    _known_information,
    _pseudo_inertia_rows,
    _unseen_covariance,
    make_consistent,
)
from mindyn.foundation.algebra.inertia import phi_about_origin, pseudo_inertia
from mindyn.identification.feasibility.checks.positive_definite import _descend, find_lowest
from mindyn.identification.feasibility.projections.yoshida_projection import STEP_INSIDE_RATIO, _step_inside
from mindyn.identification.runs_with_loads import Payload
from mindyn.logs.samples import Samples
from mindyn.regression.information import Information, triangle_of


def test_memory_of_residuals_is_that_of_a_first_order_process():
    result = stand_in(residuals=[SimpleNamespace(correlation=c) for c in (0.5, None, -0.3, 0.999)])
    assert_close(_correlated_rows(result), [3.0, 1.0, 1.0, 199.0], ORACLE)


def test_the_fit_of_a_load_starts_from_the_estimate():
    kinds = ["link", "link", "rotor", "coulomb", "link"]
    names = ["a", "b", "c", "d", "e"]
    parameters = [SimpleNamespace(name=n, kind=k) for n, k in zip(names, kinds, strict=True)]
    root = np.diag([0.1, 0.2, 0.3, 0.4, 0.5]) + 0.02
    C = root @ root.T
    result = stand_in(beta=np.arange(5.0), covariance=C, parameters=parameters, dropped=("b",), unidentifiable=("e",))
    information, start, free = _known_information(result, 5)
    assert start.tolist() == [0, 1, 2, 3, 4, *[0] * 10]
    assert free.tolist() == [0, 2, 3, 4, *range(5, 15)]
    item = np.linalg.inv(C[np.ix_([0, 2], [0, 2])])
    assert_close(information[:2, :2], item, ORACLE)
    assert not information[2:].any()
    sure = C.copy()
    sure[0] = sure[:, 0] = sure[3] = sure[:, 3] = 0.0  # a link's value that is known for sure stays, friction does not
    sure[4, 4] = np.inf
    certain = SimpleNamespace(**{**vars(result), "covariance": sure, "unidentifiable": ()})
    information, _, free = _known_information(certain, 5)
    assert free.tolist() == [2, 3, 4, *range(5, 15)]
    assert_close(information[0, 0], 1 / C[2, 2], ORACLE)
    assert not information[1:].any()


def test_directions_of_a_load_that_a_run_does_not_excite_have_wide_intervals():
    rng = np.random.default_rng(1)
    Y = rng.normal(size=(40, 6))
    Y[:, 5] = Y[:, 0]  # of the three of the load (3, 4, 5), the last is one with a column of the arm
    A = Y.T @ Y
    spread = _unseen_covariance(A, np.array([3, 4, 5]))
    assert_close(spread, 1e6 * np.diag([0.0, 0.0, 1.0]), 1e-6)
    assert not _unseen_covariance(np.eye(6), np.array([3, 4, 5])).any()


def test_scales_of_torques_shift_a_load():
    rng = np.random.default_rng(2)
    tables = [rng.normal(size=(30, 14)) for _ in range(2)]
    columns = (np.arange(13), np.arange(13))
    whole = Information(("a", "b"), tuple("abcdefghijklm"), columns, tuple(map(triangle_of, tables)), (30, 30))
    weights, free, ten = np.array([2.0, 0.5]), np.arange(13), np.arange(3, 13)
    A = sum(w * t[:, :13].T @ t[:, :13] for w, t in zip(weights, tables, strict=True))
    theta = rng.normal(size=13)
    shifts = _gain_shifts(whole, weights, free, np.linalg.inv(A), theta, ten)
    load = theta[ten]
    assert_close(shifts[0], load, EXACT)
    for joint in range(2):
        Y = tables[joint][:, :13]
        result = (np.linalg.inv(A) @ (weights[joint] * Y.T @ (Y[:, ten] @ load)))[ten]
        assert_close(shifts[1 + joint], result - load * result[0] / load[0], ORACLE)
    massless = theta.copy()
    massless[3] = 0.0
    assert np.isfinite(_gain_shifts(whole, weights, free, np.linalg.inv(A), massless, ten)).all()


def test_a_feasible_load_stays_and_another_moves_by_its_covariance():
    rows = _pseudo_inertia_rows()
    phi = phi_about_origin(2.0, np.array([0.1, 0.2, -0.1]), np.diag([0.02, 0.03, 0.04]))
    P = pseudo_inertia(phi)
    entries = [P[i, j] * (1 if i == j else np.sqrt(2)) for j in range(4) for i in range(j + 1)]
    assert_close(rows @ phi, entries, SAME_ALGEBRA)
    C = np.diag([0.1, *[0.01] * 3, *[1e-3] * 6])
    kept = make_consistent(Payload("hand", phi, C, ()))
    assert_close(kept.phi, phi, SOLVED)
    assert_close(kept.unconstrained, phi, EXACT)
    light = make_consistent(Payload("hand", np.array([-1.0, *[0.0] * 9]), C, ()))
    assert np.abs(light.phi).max() < 1e-3


class Valley:
    """M(q) = 2 + sin(q1) + (q2 - 0.3)^2 on the diagonal's first entry, 5 on the second."""

    joints = (SimpleNamespace(kind="revolute", name="a"), SimpleNamespace(kind="prismatic", name="b"))

    def matrices(self, q, _beta):
        q = np.asarray(q)
        M = np.zeros((*q.shape[:-1], 2, 2))
        M[..., 0, 0] = 2 + np.sin(q[..., 0]) + (q[..., 1] - 0.3) ** 2
        M[..., 1, 1] = 5.0
        return M

    def slopes(self, q, _beta, u):
        first = np.column_stack([np.cos(q[:, 0]), 2 * (q[:, 1] - 0.3)])
        return first * (u[:, :1] ** 2)


TURN = np.array([[-np.pi, np.pi], [-1.0, 1.0]])


def test_descents_end_in_the_valley():
    q = np.random.default_rng(0).uniform(TURN[:, 0], TURN[:, 1], (50, 2))
    family = Valley()
    end = _descend(family, None, TURN, np.array([-1.0, 0.9]))
    assert_close(end, [-np.pi / 2, 0.3], 1e-5)
    walled = np.array([[-0.5, 1.0], [0.5, 1.0]])
    assert_close(_descend(family, None, walled, np.array([0.2, 0.8])), [-0.5, 0.5], 1e-6)
    still = np.array([[0.2, 0.2], [0.8, 0.8]])
    assert _descend(family, None, still, np.array([0.2, 0.8])).tolist() == [0.2, 0.8]
    least = family.matrices(q, None)[:, 0, 0]
    for count in (50, 2):
        lowest, value, u = find_lowest(family, None, TURN, q[:count], least[:count])
        assert_close(value, 1.0, 1e-9)
        assert_close([np.sin(lowest[0]), lowest[1]], [-1.0, 0.3], 1e-5)
        assert_close(np.abs(u), [1.0, 0.0], 1e-6)


def test_a_point_is_moved_inside_along_the_constant_function():
    facets = np.array([[1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]])
    assert_close(
        _step_inside(np.array([3.0, 4.0, 3.0]), facets, STEP_INSIDE_RATIO),
        [3.0, 4.0, 3.0 + STEP_INSIDE_RATIO * np.sqrt(34)],
        ORACLE,
    )
    deep = np.array([0.0, 0.0, 5.0])
    assert _step_inside(deep, facets, STEP_INSIDE_RATIO).tolist() == deep.tolist()


@pytest.mark.parametrize(
    "masses", [[5.0, 4.0, 3.5, 3.5, 9.0], [3.0, 4.0, 4.5, 4.5, 9.0], [-3.0, -4.0, -4.0, 9.0], [8e5, 9e5, 900001.0, 9.0]]
)
def test_friction_of_a_load_is_refreshed_until_the_mass_stays(monkeypatch, masses):
    """Whichever way it goes, and each time with the load found before."""
    waiting, carried = iter(masses), []

    def fitted(_found, _samples, _carrier, load, _deviation, _calibration):
        carried.append(load)
        mass = next(waiting)
        return SimpleNamespace(mass=mass, phi=mass)

    monkeypatch.setattr(identify_payload, "_fit_payload", fitted)
    monkeypatch.setattr(identify_payload, "find_load_carrier", lambda *_: "hand")
    monkeypatch.setattr(identify_payload, "MAX_FRICTION_UPDATES", 9)
    monkeypatch.setattr(identify_payload, "Estimate", SimpleNamespace)
    friction = SimpleNamespace(needs_load=True)
    result = SimpleNamespace(robot=None, regressor=SimpleNamespace(friction=friction))
    run = object.__new__(Samples)
    assert identify_payload.identify_payload(result, run, gain_deviation=0.0).mass == masses[-2]
    assert carried == [None, *masses[:-2]]
    waiting, friction.needs_load = iter(masses), False
    assert identify_payload.identify_payload(result, run, gain_deviation=0.0).mass == masses[0]
