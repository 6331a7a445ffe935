"""Arms identified from simulated logs, and reports of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from estimators.recovered import smooth_samples

import mindyn
from mindyn.applications.validation.trajectories import Trajectories
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.regression.regressor import with_estimated_drives
from mindyn.regression.settings import EquationSettings


def arm(name="scara", names=None):
    """Return a bundled robot with friction, optionally with other joint names."""
    robot = with_estimated_drives(mindyn.load_robot(name))
    robot = replace(robot, drives=tuple(replace(drive, viscous=1.5, coulomb=0.8) for drive in robot.drives))
    if names is None:
        return robot
    joints = tuple(replace(joint, name=new) for joint, new in zip(robot.joints, names, strict=True))
    drives = tuple(replace(drive, joint=new, coupling={}) for drive, new in zip(robot.drives, names, strict=True))
    return replace(robot, joints=joints, drives=drives)


def log_of(robot, seed, count=1500, noise=0.05):
    samples = smooth_samples(robot, count, seed)
    tau = samples.tau + noise * np.random.default_rng(seed).standard_normal(samples.tau.shape)
    time = np.arange(count) / samples.rate_hz
    return log_from_arrays(robot.joint_names, time, samples.q, tau, samples.qd, samples.qdd)


def estimate_of(robot, *, treated=None, **settings):
    equation_settings = EquationSettings(AS_LOGGED, **(treated or {}))
    return mindyn.identify(robot, log_of(robot, 1), mindyn.LeastSquares(**settings), equation_settings)


ANSWERS = (
    Answer(
        "positive_definite", True, "Some positive masses have these values.", {"masses": {"link1": 1e-9, "link2": 2.5}}
    ),
    Answer("consistent", False, "Link 2 would need a negative moment.", {"link": "link2", "at": {"q": [0.1, 0.2]}}),
    Answer("plausible", None, "No outer shape is known."),
)
FEASIBLE = tuple(Answer(question, True, "So it is.") for question in ("positive_definite", "consistent"))


def trajectories_of(log, simulated, status=""):
    """Return a log and its simulated positions."""
    return Trajectories(log.joint_names, log.time, log.q, simulated, log.tau, log.tau, status)


def everything(robot):
    """Return the arguments of a report with every section."""
    log = log_of(robot, 2)
    return {
        "validation_logs": log,
        "training_logs": [log_of(robot, 1)],
        "feasibility": ANSWERS,
        "motion": trajectories_of(log, log.q + 0.001),
        "comparison": {"ordinary": estimate_of(robot, weights="ordinary")},
        "run": {"command": ["/somewhere/bin/mindyn", "identify", "scara", "run 1.csv"]},
    }
