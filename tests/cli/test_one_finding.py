"""A wrong input gives a single error or warning with its remedy, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program

import mindyn
from mindyn.foundation.findings import Kind
from mindyn.logs.log import write_log
from mindyn.robots.parts import Limits

SETTINGS = "motion_hz = 20.0\nedge_s = 0.1\ndelay_s = 0.0\n"
FAULTS = {
    "reversed": Kind.WRONG_TORQUE_SIGN,
    "swapped": Kind.SWAPPED_TORQUES,
    "gravity": Kind.WRONG_GRAVITY,
    "unit": Kind.WRONG_TORQUE_UNIT,
}


def simulate_motion(robot):
    """Return motion and torque of the robot with friction."""
    rng = np.random.default_rng(3)
    t, n = np.arange(0, 16, 0.01), robot.joint_count
    rates = 2 * np.pi * np.arange(1, 6) / 16
    sines, cosines = rng.normal(0, 0.3, (2, 5, n))
    angles = np.outer(t, rates)
    q = rng.uniform(-0.8, 0.8, n) + np.sin(angles) @ sines + np.cos(angles) @ cosines
    qd = (np.cos(angles) * rates) @ sines - (np.sin(angles) * rates) @ cosines
    qdd = -(np.sin(angles) * rates**2) @ sines - (np.cos(angles) * rates**2) @ cosines
    tau = mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd)
    size = tau.std(axis=0)
    return t, q, tau + size * (0.1 * np.tanh(qd / 0.02) + 0.1 * qd + 0.01 * rng.standard_normal(q.shape))


@pytest.mark.parametrize("name", ["ur10", "puma560_fgl"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_input_is_one_finding_with_its_remedy(name, fault, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    robot = replace(mindyn.load_robot(name), drives=(), extras=())
    robot = replace(robot, joints=tuple(replace(joint, limits=Limits()) for joint in robot.joints))
    mindyn.write_toml(robot, tmp_path / "robot.toml")
    t, q, tau = simulate_motion(robot)
    order = [0, 2, 1, *range(3, robot.joint_count)]
    tau = {"reversed": -tau, "swapped": tau[:, order], "unit": 1e3 * tau}.get(fault, tau)
    sides = {"position": "joint", "torque": "joint"}
    write_log(robot, t, {"position": q, "torque": tau}, tmp_path / "log.csv", sides)
    sidecar = tmp_path / "log.csv.toml"
    sidecar.write_text(f'accept = ["milli"]\n{sidecar.read_text()}')
    (tmp_path / "settings.toml").write_text(SETTINGS)
    gravity = ("--gravity", "0", "9.81", "0") if fault == "gravity" else ()
    given = ("identify", "robot.toml", "log.csv", "--conditioning", "settings.toml", "--method", "ordinary", *gravity)
    done = mindyn_program(*given, "--json")
    findings = json.loads(done.out)["findings"]
    (shown,) = [finding for finding in findings if finding["severity"] != "info" and finding["explained_by"] is None]
    assert shown["kind"] == FAULTS[fault]
    lines = done.err.splitlines()
    (line,) = [k for k, finding in enumerate(lines) if finding.startswith(("error ", "warning "))]
    assert lines[line] == f"{shown['severity']:<8} {shown['message']}"
    assert lines[line + 1].strip() == shown["remedy"] != ""
