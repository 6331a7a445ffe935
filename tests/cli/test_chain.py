"""The last line of each command on stderr is the next command of the workflow."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import numpy as np
from cli.program import mindyn_program
from closeness import SAME_ALGEBRA, assert_close
from excitation.full_speed import FULL_SPEED, design_motion
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.motions.excitation.motions import run_of

CELL = """
lower = -1.5
upper = 1.5
velocity = 2.0
acceleration = 8.0
effort = 4000.0
noise = 5.0
home = [0.2, 0.1]
"""
SENSORS = 'rate_hz = 100.0\ntorque_noise = 1.0\nnoise_side = "joint"\n'


def next_of(ended, *more: object) -> tuple[str, ...]:
    """Return the words of the command in the last line."""
    assert ended.code in (0, 3), ended.err
    line = ended.err.strip().splitlines()[-1]
    assert line.startswith("next: mindyn "), ended.err
    return (*shlex.split(line)[2:], *map(str, more))


def test_each_command_names_the_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cell.toml").write_text(CELL)
    (tmp_path / "sensors.toml").write_text(SENSORS)
    quick = ("--seconds", 6, "--starts", 1, "--deadline-s", 1)
    done = mindyn_program("excite", "planar2", "--limits", "cell.toml", *quick, "--gravity", 0, -9.81, 0,
                          "--out", "motion")  # fmt: skip
    assert (tmp_path / "motion" / "rehearsal.csv").is_file()
    assert not (tmp_path / "motion" / "motion.script").exists(), "two joints are no UR arm"
    done = mindyn_program(*next_of(done, "--sensors", "sensors.toml"))
    words = next_of(done)
    assert words[:3] == ("identify", "planar2", "run1.csv")
    assert words[words.index("--gravity") + 1 :][:3] == ("0", "-9.81", "0")
    done = mindyn_program(*words, "--no-report")
    done = mindyn_program(*next_of(done, "--force"))
    assert (tmp_path / "model.urdf").is_file()
    assert next_of(done) == ("robots", "model.urdf")
    alone = [word for word in words if word not in ("--hold-out", "0.3")]
    done = mindyn_program(*alone, "--no-report")  # without held-out rows: first a validation, no use
    assert next_of(done)[0] == "report"
    assert "Use it" not in done.out
    assert "training error" in done.out
    unsaved = mindyn_program(*[word for word in alone if word not in alone[-2:]], "--no-report")
    assert unsaved.err.splitlines()[-1] == "not saved; add --out run1"


def six_joints():
    robot = mindyn.load_robot("ur10")
    settings = {"seconds": 6.0, "family": mindyn.Fourier(2, ramp_s=1.0), "starts": 1, "deadline_s": 0.0}
    home = np.full(6, 0.1)
    return design_motion(robot, home=home, self_collision=False, **settings, **FULL_SPEED), home


def test_a_run_goes_from_home_to_home_within_limits_and_without_jumps():
    design, home = six_joints()
    run = design.run()
    assert_close(run.derivative(0.0, 0)[0], home, SAME_ALGEBRA)
    assert_close(run.derivative(run.seconds, 0)[0], home, 1e-9)
    t = np.linspace(0, run.seconds, 20_001)
    q, qd, qdd = (run.derivative(t, order) for order in range(3))
    assert (np.abs(qd) <= design.limits.velocity * (1 + 1e-6)).all()
    for signal, rate in ((q, qd), (qd, qdd)):
        steps = np.abs(np.diff(signal, axis=0)).max()
        assert steps <= 1.01 * np.abs(rate).max() * (t[1] - t[0]), "a jump"
    slow = design.run(0.2)
    assert_close(slow.seconds, 5 * run.seconds, SAME_ALGEBRA)
    assert_close(slow.derivative(5 * t[500], 1), 0.2 * run.derivative(t[500], 1), 1e-9)
    again = run_of(json.loads(json.dumps(design.to_dict())), "memory")
    assert_close(again.derivative(t[::100], 0), q[::100], SAME_ALGEBRA)
    for wrong in (0.0, 1.5):
        with raises(InputError, Code.OUT_OF_RANGE, "speed"):
            design.run(wrong)
    with raises(mindyn.MindynError, Code.MISSING_VALUE, "joints"):
        run_of({"family": {"kind": "Fourier"}}, "a file")


def test_a_script_has_one_servoj_for_each_step(tmp_path):
    design, home = six_joints()
    design.write(tmp_path / "motion.script", rate_hz=125.0)
    lines = (tmp_path / "motion.script").read_text().splitlines()
    steps = [line for line in lines if line.startswith("  servoj(")]
    assert len(steps) == int(design.run().seconds * 125.0 + 1e-9) + 1
    assert all("t=0.008," in line for line in steps)
    first = [float(word) for word in steps[0].split("[")[1].split("]")[0].split(",")]
    assert_close(first, home, 1e-8)


def test_a_script_stops_unless_the_robot_is_at_the_first_position(tmp_path):
    """Nothing but the motion was checked, so a script must not drive to its start."""
    design, home = six_joints()
    design.write(tmp_path / "motion.script", rate_hz=125.0)
    text = (tmp_path / "motion.script").read_text()
    assert not re.search(r"\bmove[jlpc]\(", text)
    before = text[: text.index("servoj(")]
    first = [float(word) for word in re.search(r"first = \[(.*)\]", before).group(1).split(",")]
    assert_close(first, home, 1e-8)
    assert "get_actual_joint_positions()" in before
    assert "> 0.05" in before
    assert "halt" in before


def test_urscript_is_for_arms_of_universal_robots_only(tmp_path):
    design, _ = six_joints()
    other = replace(design, robot=mindyn.load_robot("puma560"))
    with raises(mindyn.MindynError, Code.UNSUPPORTED, "puma560"):
        other.write(tmp_path / "motion.script", rate_hz=125.0)
    assert not (tmp_path / "motion.script").exists()


def test_noise_at_the_joint_is_noise_at_the_joint():
    robot = mindyn.load_robot("puma560")
    q0, none = np.zeros(6), mindyn.Sensors(rate_hz=100.0)

    def spread(side):
        sensors = mindyn.Sensors(rate_hz=100.0, torque_noise=0.3, noise_side=side, seed=3)
        settings = {"seconds": 1.0, "q0": q0, "rate_hz": 100.0, "with_drives": True}
        run, clean = (
            mindyn.simulate(robot, lambda *_: np.zeros(6), sensors=value, **settings) for value in (sensors, none)
        )
        return (run.measured.torque - clean.measured.torque).std(axis=0)

    assert np.abs(spread("joint") / 0.3 - 1).max() < 0.3
    ratios = np.array([abs(drive.ratio) for drive in robot.drives])
    assert np.abs(spread("motor") / (0.3 * ratios) - 1).max() < 0.5
    assert_close(spread(None), spread("motor"), SAME_ALGEBRA)
