"""The four real logs, fitted physically consistent from training rows alone.

The weight of the prior and the kinds of drive parameters are chosen inside the training rows by the rule of
`feasibility/prior_weight.py`. LWR4+: the prior is the masses and boxes of its own URDF (rounded values of single links,
no placeholder by the rule of `feasibility/priors.py`). KR300: its file's inertials are one placeholder for all links.
"""

from __future__ import annotations

import pytest
from logs.real_sets import real_log
from real.test_identification import SPLITS, described

from mindyn.algebra.inertia import consistency_of
from mindyn.feasibility.physically_consistent import PhysicallyConsistent
from mindyn.identification.identify import identify
from mindyn.validation.validate import validate

HEAVIEST = {"staubli_tx40": 40.0, "ur10_unisa": 60.0, "kuka_lwr4": 30.0, "kuka_kr300": 1500.0}
"""kg; more than the whole arm weighs."""
NEAR_THE_FILE = {"staubli_tx40": 18.2, "ur10_unisa": 4.35, "kuka_kr300": 13.45}
"""Held-out totals in % of version 0.1, with half of their last digit."""


def fits(name):
    robot = described(name)
    logs = [real_log(name, path).between(first, last) for path, first, last in SPLITS[name][0]]
    plain = identify(robot, logs)
    return plain, identify(robot, logs, PhysicallyConsistent(covariance="correlated"), plain.treatment)


def total(estimate, name, file, rows):
    return 100 * validate(estimate, real_log(name, file), rows=[rows]).error.total


def require_sane(found, name):
    values = found.physical.values
    links = values[: 10 * found.robot.joint_count].reshape(-1, 10)
    assert all(consistency_of(phi).possible for phi in links)
    assert links[:, 0].sum() < HEAVIEST[name]


@pytest.mark.usefixtures("real_data")
def test_lwr4_carries_over_to_another_trajectory():
    plain, found = fits("kuka_lwr4")
    assert "prior (entropic)" in found.status
    robot = described("kuka_lwr4")
    logs = [real_log("kuka_lwr4", "measurements_1.npz").between(500, 5027)]
    light = identify(robot, logs, PhysicallyConsistent(prior=None, covariance="correlated"), plain.treatment)
    assert "least total mass" in light.status
    for fit in (found, light):
        require_sane(fit, "kuka_lwr4")
        assert total(fit, "kuka_lwr4", "measurements_2.npz", (520, 5007)) <= 2.3
        assert total(fit, "kuka_lwr4", "measurements_3.npz", (520, 5007)) <= 5.5


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", ["ur10_unisa", "kuka_kr300", "staubli_tx40"])
def test_consistency_costs_less_than_a_tenth(name):
    """Of itself; and the file's inertials, where they are a prior, no more than what was measured with version 0.1."""
    plain, found = fits(name)
    logs = [real_log(name, path).between(first, last) for path, first, last in SPLITS[name][0]]
    bare = identify(described(name), logs, PhysicallyConsistent(prior=None, covariance="correlated"), plain.treatment)
    for one in (found, bare):
        require_sane(one, name)
    _, (file, start, stop) = SPLITS[name]
    assert total(bare, name, file, (start, stop)) <= 1.1 * total(plain, name, file, (start, stop))
    assert total(found, name, file, (start, stop)) <= NEAR_THE_FILE[name]
    if name == "kuka_kr300":
        assert "least total mass" in found.status
        assert "placeholder" in found.status
