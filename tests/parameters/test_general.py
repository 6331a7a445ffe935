"""The general closed form: arbitrary twists, revolute and prismatic joints, any gravity."""

from __future__ import annotations

import pytest
from chunks import seeds_of_chunk
from parameters.chains import (
    assert_equals_sampled,
    assert_equals_structural,
    assert_reproduces_torques,
    random_chain,
    random_tree,
)
from raising import raises
from robots import NONE, OBLIQUE, random_robot

from mindyn import load_robot
from mindyn.foundation.errors import Code, RobotError
from mindyn.parameters.general import general_base

CHUNK = 100


@pytest.mark.parametrize("chunk", range(4))
def test_span_of_random_chains(chunk):
    for seed in seeds_of_chunk(chunk * CHUNK, CHUNK):
        assert_equals_sampled([general_base(random_chain(seed))], seed)


def test_span_without_gravity():
    for seed in seeds_of_chunk(10_000, 200):
        assert_equals_sampled([general_base(random_chain(seed, gravity=NONE))], seed)


def test_span_of_chains_with_axes_anywhere():
    for seed in seeds_of_chunk(0, 60):
        robot = random_robot(seed, tree=False, special=False, joints=1 + seed % 6)
        assert_equals_sampled([general_base(robot)], seed)


def test_equals_the_structural_set():
    for seed in seeds_of_chunk(0, CHUNK):
        assert_equals_structural(general_base(random_chain(seed)))


@pytest.mark.parametrize("seed", range(10))
def test_values_reproduce_the_torques(seed):
    assert_reproduces_torques(general_base(random_chain(seed)), seed)


@pytest.mark.parametrize(
    ("name", "counts"),
    [("puma560", (36, 38, 34)), ("stanford", (33, 35, 31)), ("scara", (8, 10, 8))],
)
def test_known_counts(name, counts):
    actual = [general_base(load_robot(name, gravity=g)).count for g in (None, OBLIQUE, NONE)]
    assert tuple(actual) == counts


def test_masses_of_chains_without_revolute_joints_are_identifiable():
    base = general_base(random_chain(5, kinds=("prismatic",)))
    assert base.names == ("M1", "M2", "M3", "M4", "M5", "M6")


def test_trees_raise():
    with raises(RobotError, Code.UNSUPPORTED, "general"):
        general_base(random_tree(4))
