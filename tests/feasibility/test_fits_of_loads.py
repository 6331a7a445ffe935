"""The fit of a load equals sums over its rows: start, correlation, torque scales, unseen directions, feasibility.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from closeness import EXACT, ORACLE, SAME_ALGEBRA, SOLVED, assert_close
from stand_in import stand_in

from mindyn.applications.payload.identify_payload import (
    _gain_shifts,
    _known_information,
    _pseudo_inertia_rows,
    _unseen_covariance,
    make_consistent,
)
from mindyn.foundation.algebra.inertia import phi_about_origin, pseudo_inertia
from mindyn.identification.runs_with_loads import Payload
from mindyn.regression.information import Information, triangle_of


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
