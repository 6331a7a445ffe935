"""Witnesses, moves, statuses and errors of checks and projections, compared with numbers computed here.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from raising import raises
from small_arms import planar_arm, regressor_matrices

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.checks.positive_definite import check_positive_definite, sample_configurations
from mindyn.identification.feasibility.conditions.inertia_matrix_family import resolve_subject
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.priors import Prior
from mindyn.identification.feasibility.conditions.user_bounds import Bounds, bounds_from_shapes
from mindyn.identification.feasibility.full_models.full_model import GYRATION_LIMITS, _move_to_prior
from mindyn.kernels.model import compile_model
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.robots.parts import Drive, Shape


def arm(*drives):
    """Two links, the second too light where it is far out: M is indefinite in places."""
    bodies = (
        phi_about_origin(2.0, np.array([0.2, 0.0, 0.0]), np.diag([0.01, 0.02, 0.02])),
        phi_about_origin(1.0, np.array([0.3, 0.0, 0.0]), np.diag([0.01, 0.02, 0.02])),
    )
    robot = planar_arm([0.5])
    links = tuple(replace(link, phi=phi) for link, phi in zip(robot.links, bodies, strict=True))
    return replace(robot, links=links, drives=drives)


@pytest.mark.parametrize("driven", [False, True])
def test_the_witness_of_a_check_describes_the_sampled_configurations(driven):
    robot = (
        arm(Drive("joint1", 10.0, rotor_inertia=1e-4), Drive("joint2", 10.0, rotor_inertia=1e-4)) if driven else arm()
    )
    base = base_parameters(robot, with_drives=driven)
    values = base.values.copy()
    values[-1] *= 3.0
    values[[k for k, name in enumerate(base.names) if name.startswith("Izz2")]] *= 0.3
    answer = check_positive_definite((base, values), count=500, rng=3)
    witness = answer.witness
    q = sample_configurations(np.array([[0.0, 0.0], [-np.pi, np.pi]]), 500, 3)
    M = regressor_matrices(base, values, q)
    least = np.linalg.eigvalsh(M)[:, 0]
    assert witness["configurations"] == 500
    assert witness["failing_fraction"] == pytest.approx(np.mean(least <= 0))
    assert witness["smallest_eigenvalue"] <= least.min() + 1e-12
    assert answer.holds == (witness["smallest_eigenvalue"] > 0)
    assert_close(list(witness["smallest_diagonal"].values()), np.einsum("kii->ki", M).min(axis=0), ORACLE)
    assert witness["inertia_matrix"] == ("with rotors" if driven else "of the chain alone")
    assert f"the inertia matrix {witness['inertia_matrix']} is" in answer.sentence
    at = np.array([[0.0, np.radians(witness["configuration"]["joint2"]["position"])]])
    result, vectors = np.linalg.eigh(regressor_matrices(base, values, at)[0])
    assert result[0] == pytest.approx(witness["smallest_eigenvalue"], rel=1e-6, abs=1e-12)
    direction = np.array(list(witness["direction"].values()))
    assert abs(direction @ vectors[:, 0]) == pytest.approx(1.0, rel=1e-6)


def test_a_singular_matrix_is_named():
    robot = planar_arm([0.5])
    point = phi_about_origin(1.0, np.zeros(3), np.zeros((3, 3)))
    rod = phi_about_origin(1.0, np.array([0.3, 0.0, 0.0]), np.diag([0.0, 0.02, 0.02]))
    robot = replace(robot, links=(replace(robot.links[0], phi=rod), replace(robot.links[1], phi=point)))
    answer = check_positive_definite(robot, count=50)
    assert answer.holds is None
    assert "is singular to rounding" in answer.sentence


def test_members_of_a_family():
    robot = arm(Drive("joint1", 10.0, rotor_inertia=0.01), Drive("joint2", 10.0, rotor_inertia=0.02))
    (whole, values), (chain, link_values) = resolve_subject(robot), resolve_subject(replace(robot, drives=()))
    q = np.array([[0.3, 0.7]])
    M, bare = whole.matrices(q, values)[0], chain.matrices(q, link_values)[0]
    assert_close(M - bare, np.diag([1.0, 2.0]), 1e-9)
    assert_close(bare, compile_model(replace(robot, drives=())).inertia_matrix(q)[0], ORACLE)
    for base in (whole.base, chain.base):
        assert resolve_subject((robot, base.values))[0].base.with_drives == base.with_drives
    with raises(InputError, Code.WRONG_SHAPE, "values"):
        resolve_subject((robot, np.zeros(3)))
    with raises(InputError, Code.NOT_FINITE, "1"):
        resolve_subject((robot, np.where(np.arange(chain.base.count) == 1, np.nan, 0.0)))
    with raises(InputError, Code.WRONG_TYPE, "int"):
        resolve_subject(3)


def test_unknown_links_are_limited_to_their_length_if_the_dynamics_allow_it():
    space = space_of(Regressor(with_estimated_drives(planar_arm([0.5]))))
    x = np.zeros(space.size)
    for i, mass in enumerate((2.0, 3.0)):
        x[space.link(i)] = phi_about_origin(mass, np.array([0.2, 0.0, 0.0]), 0.05 * np.eye(3))
    wide = tuple(phi_about_origin(2.0, np.zeros(3), 9.0 * np.eye(3)) for _ in range(2))
    prior = Prior(wide, "euclidean", ())
    known = _move_to_prior(space, x, prior, [], drives_stay=True)
    unknown = _move_to_prior(space, x, prior, [0, 1], drives_stay=True)
    gyration = [
        [np.sqrt(item[space.link(i)][[4, 6, 9]].sum() / 2 / item[space.link(i)][0]) for i in range(2)]
        for item in (known, unknown)
    ]
    assert max(gyration[0]) > 0.5 * 1.1
    assert max(gyration[1]) < 0.5 * GYRATION_LIMITS[0] * (1 + 1e-6)


def test_boxes_about_shapes():
    shapes = (
        Shape("box", (0.2, 0.4, 0.6)),
        Shape("sphere", (0.15,)),
        Shape("cylinder", (0.05, 1.0)),
        Shape("capsule", (0.05, 1.0)),
    )
    robot = planar_arm([0.5])
    halves = ((0.1, 0.2, 0.3), (0.15, 0.15, 0.15), (0.05, 0.05, 0.5), (0.05, 0.05, 0.55))
    for shape, half in zip(shapes, halves, strict=True):
        links = (replace(robot.links[0], shapes=(shape,)), robot.links[1])
        boxes = bounds_from_shapes(replace(robot, links=links)).centres
        assert list(boxes) == ["link1"]
        assert_close(boxes["link1"], [[-item for item in half], list(half)], SAME_ALGEBRA)


@pytest.mark.parametrize(
    ("given", "code", "subject"),
    [
        ({"masses": {"a": (2.0, 1.0)}}, Code.OUT_OF_RANGE, "mass of a"),
        ({"masses": {"a": (-0.1, 1.0)}}, Code.OUT_OF_RANGE, "mass of a"),
        ({"masses": {"a": (0.0, np.inf)}}, Code.OUT_OF_RANGE, "mass of a"),
        ({"total_mass": (3.0, 2.0)}, Code.OUT_OF_RANGE, "total mass"),
        ({"total_mass": (-1.0, 2.0)}, Code.OUT_OF_RANGE, "total mass"),
        ({"total_mass": (1.0, np.inf)}, Code.OUT_OF_RANGE, "total mass"),
        ({"centres": {"a": ((0.0, 0.0, 0.0), (1.0, -1.0, 1.0))}}, Code.INVALID_VALUE, "a"),
        ({"centres": {"a": ((0.0, 0.0), (1.0, 1.0))}}, Code.INVALID_VALUE, "a"),
        ({"centres": {"a": ((0.0, 0.0, 0.0), (1.0, np.nan, 1.0))}}, Code.INVALID_VALUE, "a"),
        ({"centres": {"a": ((-np.inf, 0, 0), (1, 1, 1))}}, Code.INVALID_VALUE, "a"),
        ({"symmetric": {"a": "zz"}}, Code.UNKNOWN_NAME, "zz"),
    ],
)
def test_bounds_out_of_range_raise(given, code, subject):
    with raises(InputError, code, subject):
        Bounds(**given)


def test_bounds_at_their_ends_are_kept():
    kept = Bounds({"a": (0.0, 0.0)}, {"a": ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))}, (2.0, 2.0), {"a": "xy"})
    assert not kept.is_empty
    assert Bounds().is_empty
