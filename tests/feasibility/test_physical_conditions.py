"""Conditions on link parameters at values with a known answer; selection of a prior.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from small_arms import planar_arm

from mindyn.foundation.algebra.inertia import phi_about_origin, pseudo_inertia
from mindyn.identification.feasibility.checks.consistent_values import check_values
from mindyn.identification.feasibility.conditions.nearest_values import relative_metric
from mindyn.identification.feasibility.conditions.physical_space import MIN_INSIDE_EIGENVALUE, WIDTH_ALLOWANCE, space_of
from mindyn.identification.feasibility.fits.prior_and_drive_choice import (
    _compute_errors,
    _distinct_models,
    _select_drive_model,
    choose_prior,
)
from mindyn.regression.regressor import Regressor, with_estimated_drives


@pytest.fixture(scope="module")
def space():
    return space_of(Regressor(with_estimated_drives(planar_arm([0.5]))))


def solid(space, **drives):
    """Two balls of 2 kg and 3 kg, and drive parameters by their labels."""
    x = np.zeros(space.size)
    for i, mass in enumerate((2.0, 3.0)):
        x[space.link(i)] = phi_about_origin(mass, np.array([0.2, 0.0, 0.0]), 0.01 * np.eye(3))
    for label, value in drives.items():
        x[space.labels.index(label)] = value
    return x


def test_slices_of_masses_and_links_select_their_parameters(space):
    x = solid(space)
    assert x[space.masses].tolist() == [2.0, 3.0]
    for i in range(2):
        assert space.labels[space.link(i).start] == f"m{i + 1}"
        assert space.link(i).stop - space.link(i).start == 10
    assert space.length == 0.5


def test_the_smallest_margin_is_that_of_all_conditions(space):
    x = solid(space, Im1=0.1, Im2=0.2, fv1=0.3, fc2=0.4)
    scaled = np.diag([2.0, 2.0, 2.0, 1.0])  # lengths in units of 0.5 m
    least = min(np.linalg.eigvalsh(scaled @ pseudo_inertia(x[space.link(i)]) @ scaled)[0] for i in range(2))
    assert_close(space.smallest_eigenvalue(x), least, ORACLE)
    assert space.smallest_margin(x) == 0.0  # the frictions that are zero
    assert space.smallest_margin(solid(space, fc2=-0.7)) == -0.7
    flat = solid(space)
    flat[space.link(1)][4:] = 0.0
    assert space.smallest_margin(flat) == space.smallest_eigenvalue(flat) < 0


def test_move_inside_changes_values_no_more_than_needed(space):
    x = solid(space, Im1=0.1, fc1=0.2, fv1=0.0)
    assert_close(space.move_inside(x), x, ORACLE)
    rod = solid(space, fc1=-0.2)
    rod[space.link(1)] = phi_about_origin(3.0, np.zeros(3), np.diag([0.0, 0.1, 0.1]))
    result = space.move_inside(rod)
    assert space.smallest_eigenvalue(result) > 0
    assert result[space.labels.index("fc1")] == 0.0
    assert_close(result[space.link(0)], rod[space.link(0)], ORACLE)
    assert_close(result[space.link(1)], rod[space.link(1)], 10 * MIN_INSIDE_EIGENVALUE)
    heavy = solid(space)
    heavy[space.link(1)] = phi_about_origin(3000.0, np.zeros(3), np.diag([0.0, 0.1, 0.1]))
    assert_close(
        space.smallest_eigenvalue(space.move_inside(heavy)), 3000 * MIN_INSIDE_EIGENVALUE, 1e-3
    )  # of the largest eigenvalue, its mass


@pytest.mark.parametrize("scaled", [False, True])
def test_cones_contain_physical_values_in_any_units(space, scaled):
    units = space.units if scaled else np.ones(space.size)
    rows = space.cone_rows(units)
    assert [row.kind for row in rows] == ["semidefinite", "semidefinite", "nonnegative"]
    x = solid(space, Im1=0.1, Im2=0.2, fv1=0.3, fc2=0.4)
    v = x / units
    for i, result in enumerate(rows[:2]):
        values = result.matrix @ v + result.offset
        D = np.diag([2.0, 2.0, 2.0, 1.0])
        P = D @ pseudo_inertia(x[space.link(i)]) @ D
        assert_close(np.linalg.norm(values), np.linalg.norm(P), ORACLE)
    last = rows[2].matrix @ v
    assert (last >= 0).all()
    bad = solid(space, Im1=-0.1)
    assert (rows[2].matrix @ (bad / units)).min() < 0


def test_a_light_link_is_compact(space):
    rows = space.compact_rows()
    assert (rows.matrix @ solid(space) > 0).all()
    far = solid(space)
    far[space.link(1)] = phi_about_origin(3.0, np.zeros(3), 1e3 * np.eye(3))
    assert (rows.matrix @ far > 0).tolist() == [True, False]
    assumed = [None, phi_about_origin(3.0, np.zeros(3), 1e3 * np.eye(3))]
    assert (space.compact_rows(assumed).matrix @ far > 0).all()  # unless that is what is believed
    radius = np.sqrt(far[space.link(1)][[4, 6, 9]].sum() / 2 / 3.0)
    wider = far.copy()
    wider[space.link(1)] = phi_about_origin(3.0, np.zeros(3), 1.01 * WIDTH_ALLOWANCE**2 * 1e3 * np.eye(3))
    assert radius > space.reach
    assert not (space.compact_rows(assumed).matrix @ wider > 0).all()


class Model:
    """A problem of which each model's errors are known: rotor matters, friction does not."""

    def __init__(self, out=()):
        self.out = tuple(out)
        self.space = SimpleNamespace(matrix=np.eye(1))

    @property
    def zero(self):
        return tuple({"rotor": 0, "friction": 1}[kind] for kind in sorted(self.out))

    def drop_kinds(self, kinds):
        return Model(kinds)

    def solve(self, information, weights, weight):  # noqa: ARG002
        return np.array([(3.0 if "rotor" in self.out else 1.0) + abs(np.log10(weight) + 2)])


class Fold:
    """Squared residuals of ten rows, one fold a little worse than the other."""

    joint_names, names, columns, factors = ("j",), ("p",), (np.arange(1),), (np.eye(2),)

    def __init__(self, more):
        self.more, self.counts = more, (10,)

    def residuals(self, beta):
        return np.array([10 * beta[0] + self.more])


def test_the_simplest_model_within_the_standard_error_is_selected(monkeypatch):
    def solve_all(fits, weights):
        return [model.solve(part, weights, weight) for model, part, weight in fits]

    choice = "mindyn.identification.feasibility.fits.prior_and_drive_choice"
    monkeypatch.setattr(f"{choice}.solve_all", solve_all)
    monkeypatch.setattr(f"{choice}.add_information", lambda parts: parts[0])
    folds, weights = [Fold(0.0), Fold(0.1)], np.ones(1)
    assert _distinct_models(Model()) == [("rotor", "friction"), ("friction",), ("rotor",), ()]
    tried = []
    taken = _compute_errors(Model(), folds, weights, [(("rotor",), 1e-2), (("friction",), 1e-2), ((), 1e-2)], tried)
    assert _select_drive_model(taken) == 1
    assert [item["without"] for item in tried] == [["rotor"], ["friction"], []]
    result = choose_prior(Model(), folds, weights, None, kinds=True)
    assert (result.weight, result.dropped_kinds) == (
        pytest.approx(1 / 20),
        ("friction",),
    )  # one row of two folds of ten
    assert choose_prior(Model(), folds, weights, None, kinds=False).dropped_kinds == ()
    given = choose_prior(Model(), folds, weights, 0.3, kinds=True)
    assert (given.weight, given.dropped_kinds) == (0.3, ("friction",))
    assert choose_prior(Model(), folds, weights, 0.3, kinds=False).tried == ()


def test_how_far_consistent_values_are_is_a_mean_over_all_values(space):
    beta = space.matrix @ solid(space, Im1=0.1, Im2=0.1, fv1=0.3, fv2=0.3, fc1=0.4, fc2=0.4)
    assert check_values(space, beta).holds is True
    wrong = beta.copy()
    wrong[space.names.index("fc1")] = -0.4
    answer = check_values(space, wrong)
    assert answer.holds is False
    assert answer.witness["contradicting"] == ["fc1"]
    assert abs(answer.witness["nearest"]["fc1"]) < 1e-6 * 0.4
    assert "fc1 = -0.4 (nearest 0)" in answer.sentence  # a rounding error of the solver is not a value
    nearest = np.array(list(answer.witness["nearest"].values()))
    moved = relative_metric(space, wrong) @ (nearest - wrong)
    assert_close(answer.witness["distance"], np.sqrt(np.mean(moved**2)), 1e-5)
