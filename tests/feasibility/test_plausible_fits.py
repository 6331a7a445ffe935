"""Consistent fits and `make_feasible` give links that can exist, on arms that MuJoCo simulates."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from logs.real_sets import needs_real_data, real_log, real_robot
from plants.mujoco_arm import random_arm_file, random_drives, record

import mindyn
from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.identification import check_full_model
from mindyn.identification.feasibility.conditions.default_limits import DENSITIES_KG_M3, plausible_limits
from mindyn.identification.feasibility.fits.constrained_fit import FitProblem
from mindyn.identification.feasibility.full_models.full_model import build_full_model
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import Shape

SMALL_MOTION = 0.15
"""Speed of a motion that determines few parameters."""


@pytest.fixture(scope="module", params=[3, 5])
def weak(request, tmp_path_factory):
    """Return the robot of a file with wrong masses, and a noisy log with a small motion of the true arm."""
    rng, folder = np.random.default_rng(request.param), tmp_path_factory.mktemp("arm")
    true, file = random_arm_file(rng, 5, folder, mass_error=0.25)
    rec = record(true, random_drives(rng, true), rng, seconds=6.0, speed=SMALL_MOTION, sines=1)
    tau = rec.tau + 0.05 * np.sqrt((rec.tau**2).mean(axis=0)) * rng.standard_normal(rec.tau.shape)
    robot = mindyn.load_robot(file)
    return robot, mindyn.log_from_arrays(robot.joint_names, rec.time, rec.q, tau)


def without_inertials(robot):
    return replace(robot, links=tuple(replace(link, phi=None) for link in robot.links))


def diverges(path):
    """Return how many of ten free motions of one second MuJoCo cannot simulate."""
    model, rng, count = mujoco.MjModel.from_xml_path(str(path)), np.random.default_rng(0), 0
    for _ in range(10):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = rng.uniform(-1, 1, model.nq), rng.uniform(-0.5, 0.5, model.nv)
        mujoco.mj_step(model, data, round(1.0 / model.opt.timestep))
        count += not np.isfinite(data.qpos).all() or any(warning.number for warning in data.warning)
    return count


@pytest.mark.parametrize("inertials", [True, False])
@pytest.mark.parametrize("method", ["feasible", "consistent"])
def test_weak_motions_give_plausible_models_that_mujoco_simulates(weak, inertials, method, tmp_path):
    robot, log = weak
    robot = robot if inertials else without_inertials(robot)
    settings = EquationSettings()
    if method == "consistent":
        estimate = mindyn.identify(robot, log, mindyn.PhysicallyConsistent(covariance="correlated"), settings)
    else:
        estimate = mindyn.make_feasible(mindyn.identify(robot, log, mindyn.LeastSquares(), settings))
    model = build_full_model(estimate)
    assert check_full_model(model, robot).problems == ()
    if inertials:
        masses, stated = model.phi[::10], robot.phi[::10]
        assert (masses <= 5 * stated + 0.5 * stated.sum()).all()
    assert min(np.linalg.eigvalsh(mass_com_inertia(link.phi)[2])[0] for link in model.links) > 1e-8
    mindyn.write_mjcf(estimate, tmp_path / "x.xml", force=True)
    assert diverges(tmp_path / "x.xml") == 0


def test_limits_move_a_fit_that_violates_them_and_no_other(weak, monkeypatch):
    """The minimum of a convex program is the same with rows that it satisfies."""
    robot, log = weak
    arms = (robot, without_inertials(robot))
    estimates = [mindyn.identify(arm, log, mindyn.LeastSquares(), EquationSettings()) for arm in arms]
    limited = [build_full_model(mindyn.make_feasible(estimate)) for estimate in estimates]
    monkeypatch.setattr(FitProblem, "is_within_limits", lambda *_: True)
    free = [build_full_model(mindyn.make_feasible(estimate)) for estimate in estimates]
    were_plausible = [check_full_model(model, arm).is_plausible for model, arm in zip(free, arms, strict=True)]
    assert sorted(were_plausible) == [False, True]
    k = were_plausible.index(True)
    assert limited[k].phi == pytest.approx(free[k].phi, rel=1e-6, abs=1e-9)


def test_a_feasible_fit_uses_the_equations_that_the_estimate_keeps(weak, tmp_path):
    """The error is at most that of a projection in the metric of the covariance, also after saving and loading."""
    robot, log = weak
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), EquationSettings())
    fitted, projected = mindyn.make_feasible(estimate), mindyn.make_feasible(estimate.with_data(factor=None))
    errors = [np.linalg.norm(estimate.data.factor @ np.append(-e.beta, 1.0)) for e in (fitted, projected)]
    assert errors[0] <= errors[1] * (1 + 1e-3)
    estimate.save(tmp_path / "e.json")
    again = mindyn.make_feasible(mindyn.load_estimate(tmp_path / "e.json"))
    assert again.beta == pytest.approx(fitted.beta, rel=1e-9, abs=1e-12)


def test_changed_values_are_projected_and_not_fitted_again(weak):
    robot, log = weak
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), EquationSettings())
    truth = mindyn.make_feasible(estimate)
    moved = estimate.with_values(beta=1.3 * truth.beta)
    result = mindyn.make_feasible(moved)
    assert np.linalg.norm(result.beta - moved.beta) < 0.1 * np.linalg.norm(moved.beta)


def test_links_without_inertials_have_the_density_of_their_shapes():
    robot = mindyn.load_robot("planar2")
    box = Shape("box", (0.1, 0.2, 0.3))
    bare = replace(robot, file="", links=tuple(replace(link, phi=None, shapes=(box,)) for link in robot.links))
    for link in plausible_limits(bare, bare).links:
        assert link.mass_range == pytest.approx([density * 0.006 for density in DENSITIES_KG_M3], rel=1e-6)


@needs_real_data
@pytest.mark.parametrize("method", ["feasible", "consistent"])
def test_the_transfer_set_of_an_lwr4_gives_a_plausible_model(method, tmp_path):
    robot, log = real_robot("kuka_lwr4"), real_log("kuka_lwr4", "measurements_1.npz").take(slice(500, 5027))
    estimator = (
        mindyn.PhysicallyConsistent(covariance="correlated") if method == "consistent" else mindyn.LeastSquares()
    )
    estimate = mindyn.identify(robot, log, estimator)
    estimate = estimate if method == "consistent" else mindyn.make_feasible(estimate)
    assert build_full_model(estimate).phi[10:20][0] < 5 * robot.phi[10]
    assert check_full_model(build_full_model(estimate), robot).is_plausible
    mindyn.write_mjcf(estimate, tmp_path / "x.xml", force=True)
    assert diverges(tmp_path / "x.xml") == 0
