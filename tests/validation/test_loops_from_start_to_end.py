"""A five-bar and a slider-crank from start to end: excite, simulate, identify, check, project, report, export."""

from __future__ import annotations

import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from cli.program import mindyn_program
from closed_models import closed_model
from closeness import assert_close, assert_negligible
from excitation.full_speed import design_motion
from scipy.linalg import null_space
from scipy.stats import chi2

import mindyn
from mindyn.identification.feasibility.physical_intervals import physical_ends
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.samples import Samples
from mindyn.motions.simulation.controllers import ComputedTorque
from mindyn.motions.simulation.sensors import Sensors
from mindyn.regression.build_rows import build_rows
from mindyn.regression.regressor import Regressor
from mindyn.robots.parts import Drive

RECOVERED = 1e-8
MUJOCO = 1e-6
RATE_HZ = 1000.0
LIMITS = {
    "five_bar": {
        "lower": {"joint1": -1.5, "joint2": -0.5, "joint4": -1.7},
        "upper": {"joint1": 1.5, "joint2": 0.6, "joint4": -0.7},
        **{"velocity": 5.0, "acceleration": 60.0, "effort": 500.0},
    },
    "slider_crank": {"lower": -6.0, "upper": 6.0},
}
ESTIMATORS = {
    "least squares": mindyn.LeastSquares(),
    "instruments": mindyn.InstrumentalVariables(),
    "energy": mindyn.EnergyDifference(reversals="within"),
    "momentum": mindyn.EnergyDifference("momentum", reversals="within"),
    "consistent": mindyn.PhysicallyConsistent(),
}


def driven(name):
    """The bundled robot, with drives on the primary joints and friction of a passive one."""
    robot = mindyn.load_robot(name)
    if robot.drives:
        return robot
    drives = [
        Drive(primary_name, 10.0, viscous=2e-2, coulomb=0.1, rotor_inertia=5e-4) for primary_name in robot.primary_names
    ]
    return replace(robot, drives=(*drives, Drive("joint3", viscous=0.5)))


class Course:
    """A robot, its designed motion, and the exact samples of it."""

    def __init__(self, name):
        self.robot = driven(name)
        limits = mindyn.MotionLimits.of(self.robot, **LIMITS[name])
        self.design = design_motion(
            self.robot,
            limits=limits,
            seconds=8.0,
            family=mindyn.Fourier(2),
            starts=1,
            deadline_s=4.0 if name == "slider_crank" else None,  # any motion of one joint will do
            floor=None,
            noise=0.1,
            speed=1.0,
            radius=dict.fromkeys(self.robot.link_names, 0.02),
        )
        q, qd, qdd, _ = self.design.sample(RATE_HZ)
        tau = mindyn.compile_model(self.robot, with_drives=True).inverse_dynamics(q, qd, qdd)
        segment = np.zeros(len(q), dtype=np.int64)
        self.samples = Samples(self.robot.primary_names, q, qd, qdd, tau, RATE_HZ, segment)
        self.rows = build_rows(self.robot, self.samples)
        self.truth = Regressor(self.robot).base.values


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_robots_are_excited_simulated_identified_checked_projected_reported_and_written(name, tmp_path):
    """One test for each robot, so that its motion is designed once."""
    course = Course(name)
    for method in ESTIMATORS.values():
        require_recovery(course, method)
    log, result = noisy_fits(course)
    require_within_intervals(course, result)
    require_written(course, log, result, tmp_path)
    if name == "five_bar":  # the press goes through the program from its own design on
        course.design.write(tmp_path / "motion")
        require_program(name, (), tmp_path)


def require_recovery(course, method):
    """Without noise every method recovers the parameters."""
    fit = method.fit(course.rows)
    assert_close(fit.base_values, course.truth, RECOVERED)
    samples = course.samples
    assert_close(fit.predict(samples.q, samples.qd, samples.qdd), samples.tau, RECOVERED)


def noisy_fits(course):
    """Log and estimates by what noisy sensors log while a controller follows the design; of one treatment."""
    robot, run = course.robot, course.design.run()
    q, qd, _ = run(0.0)
    read = mindyn.simulate(
        robot,
        ComputedTorque(robot, run, 400.0, 40.0, with_drives=True),
        seconds=run.seconds,
        q0=q,
        qd0=qd,
        with_drives=True,
        rate_hz=500.0,
        control_rate_hz=500.0,
        method="fixed",
        longest_step_s=2e-3,
        sensors=Sensors(rate_hz=250.0, torque_noise=0.2, noise_side="joint", seed=1),
    ).measured
    log = mindyn.log_from_arrays(read.joint_names, read.t, read.position, read.torque)
    # Torques are held for 2 ms from when they were computed: on average they are 1 ms old.
    settings = mindyn.EquationSettings(conditioning=Conditioning(motion_hz=None, delay_s=-1e-3))
    methods = {
        "least squares": mindyn.LeastSquares(covariance="correlated"),
        "instruments": mindyn.InstrumentalVariables(),
        "momentum": mindyn.EnergyDifference("momentum", reversals="within"),
        "consistent": mindyn.PhysicallyConsistent(),
    }
    return log, {name: mindyn.identify(robot, [log], method, settings) for name, method in methods.items()}


def require_within_intervals(course, fits):
    """With noise the parameters lie within their intervals."""
    count = len(course.truth)
    for name in ("least squares", "instruments"):
        result = fits[name]
        away = result.base_values - course.truth
        assert (np.abs(away) / result.deviations[:count]).max() < 4, name
        # Blocks widen each parameter by itself; how all lie together is what the noise says.
        covariance = result.by_noise_alone().covariance[:count, :count]
        assert away @ np.linalg.solve(covariance, away) < chi2.ppf(0.999, count), name
    momentum = fits["momentum"]
    assert (np.abs(momentum.base_values - course.truth) / momentum.deviations[:count]).max() < 4
    low, high = physical_ends(fits["consistent"])[:, :count]
    low, high = (low + high) / 2 + (high - low) / 2 * np.array([[-1.0], [1.0]]) * (3.29 / 1.96)  # of 99.9 %
    item = np.isfinite(low)  # the others are from the prior, and say so
    assert item.sum() >= 3
    room = 1e-9 * np.abs(course.truth).max()  # zeros that a base set makes of others have some rounding
    assert (low[item] <= course.truth[item] + room).all()
    assert (course.truth[item] <= high[item] + room).all()


def require_written(course, log, by_method, tmp_path):
    """The estimate is checked, projected, reported and written; MuJoCo has its torques."""
    fit = by_method["instruments"]
    projected = mindyn.make_feasible(fit)
    for item in (projected, by_method["consistent"]):
        feasibility = mindyn.check_feasible(item)
        assert feasibility.positive_definite.holds is feasibility.consistent.holds is True
    mindyn.write_report(by_method["consistent"], tmp_path / "report.html", validation_logs=[log])
    page = (tmp_path / "report.html").read_text()
    assert all(name in page for name in course.robot.primary_names)
    mindyn.write_mjcf(by_method["consistent"], tmp_path / "robot.xml")
    model = mindyn.build_full_model(by_method["consistent"])
    assert_close(*torques_by_mujoco(model, tmp_path / "robot.xml"), MUJOCO)


def torques_by_mujoco(robot, path):
    """Torques of the primary joints (N, k) by MuJoCo's tree, projected by MuJoCo's own constraints, and by mindyn."""
    model = mujoco.MjModel.from_xml_path(str(path))
    model.dof_damping[:], model.dof_frictionloss[:] = 0.0, 0.0
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    home = model.key_qpos[0]
    primary = [model.joint(name).id for name in robot.primary_names]
    p = home[primary] + rng.uniform(-0.2, 0.2, (10, len(primary)))
    pd, pdd = rng.uniform(-1, 1, (2, *p.shape))
    moved = closed_model(robot).motion(p, pd, pdd)

    def constraint(q):
        data.qpos[:] = q
        mujoco.mj_fwdPosition(model, data)
        assert_negligible(data.efc_pos, 1.0, MUJOCO)
        return data.efc_J.reshape(-1, model.nv).copy()

    expected = []
    for q, qd, qdd in zip(moved.q, moved.qd, moved.qdd, strict=True):
        step = 1e-6
        turning = (constraint(q + step * qd) - constraint(q - step * qd)) / (2 * step) @ qd
        J = constraint(q)
        assert_negligible(J @ qd, np.abs(qd).max(), MUJOCO)
        assert_negligible(J @ qdd + turning, np.abs(qdd).max(), MUJOCO)
        data.qvel[:] = qd
        mujoco.mj_fwdVelocity(model, data)
        tau = np.zeros(model.nv)
        mujoco.mj_mulM(model, data, tau, qdd)
        free = null_space(J)
        expected.append(np.linalg.solve(free[primary].T, free.T @ (tau + data.qfrc_bias)))
    smooth = replace(
        robot, drives=tuple(replace(drive, viscous=0.0, coulomb=0.0, offset=0.0) for drive in robot.drives)
    )
    return mindyn.compile_model(smooth, with_drives=True).inverse_dynamics(moved.q, pd, pdd), np.array(expected)


def test_the_program_takes_a_press_from_start_to_end(tmp_path):
    (tmp_path / "limits.toml").write_text("lower = -6.0\nupper = 6.0\nnoise = 1.0\n")
    design = ("--seconds", 6, "--harmonics", 1, "--limits", "limits.toml", "--no-floor", "--starts", 1)
    require_program("slider_crank", [("excite", "robot.toml", *design, "--out", "motion")], tmp_path)


def require_program(name, begin, folder):
    """The commands from a motion, or what makes it, to files of the estimate, in a folder."""
    noise = ("--torque-noise", 0.002, "--noise-at", "motor", "--seed", 3)
    chain = (
        *begin,
        ("simulate", "robot.toml", "--motion", "motion", "--out", "run.csv", *noise),
        ("identify", "robot.toml", "run.csv", "--hold-out", 0.3, "--out", "found"),
        ("check", "found"),
        ("report", "found", "--out", "again.html"),
        ("export", "found", "--to", "mjcf", "--out", "found.xml"),
        ("export", "found", "--to", "c", "--out", "found.c"),
    )
    with chdir(folder):
        mindyn.write_toml(driven(name), "robot.toml")
        for words in chain:
            ended = mindyn_program(*words)
            assert ended.code == 0, (words, ended.err)
        estimate = mindyn.load_estimate("found/estimate.json")
        assert json.loads(Path("found/validation.json").read_text())["total"] < 0.05
        if name == "slider_crank":
            assert estimate.robot.home.tolist() == mindyn.load_robot("slider_crank").home.tolist()
        assert mujoco.MjModel.from_xml_path("found.xml").neq == 2  # a pin is held at two points
        again = mindyn.load_robot("found.xml")
        assert again.primary_names == estimate.robot.primary_names
        assert_close(*torques_by_mujoco(again, "found.xml"), MUJOCO)
        assert "closure" in Path("found.h").read_text()
