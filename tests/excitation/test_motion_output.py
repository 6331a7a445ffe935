"""Files of a designed motion, and the command that writes them."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from dataclasses import replace

import numpy as np
import polars
import pytest
from closeness import SAME_ALGEBRA, assert_close
from excitation.full_speed import FULL_SPEED, design_motion
from excitation.independent_check import motion_at
from raising import raises
from robots import random_robot
from typer.testing import CliRunner

import mindyn
from mindyn.cli.limits_file import read_limits_file
from mindyn.cli.main import app
from mindyn.foundation.errors import Code
from mindyn.motions.excitation.limits import guessed_limit
from mindyn.motions.excitation.motion_files import ALL, limits_draft


@pytest.fixture(scope="module")
def design():
    robot = random_robot(11, joints=2, tree=False, gravity=(0.0, -9.81, 0.0))
    return design_motion(robot, seconds=6.0, family=mindyn.Fourier(2, ramp_s=1.0), starts=1, **FULL_SPEED)


@pytest.fixture(scope="module")
def folder(design, tmp_path_factory):
    path = tmp_path_factory.mktemp("motion")
    assert {item.name for item in design.write(path, rate_hz=50.0)} == set(ALL)
    return path


def test_the_table_holds_the_samples(design, folder):
    q, qd, qdd, t = design.sample(50.0)
    assert len(t) == 301
    table = polars.read_csv(folder / "motion.csv", comment_prefix="#")
    assert_close(table["time"].to_numpy(), t, SAME_ALGEBRA)
    for k, name in enumerate(design.robot.joint_names):
        for signal, values in (("position", q), ("velocity", qd), ("acceleration", qdd)):
            assert_close(table[f"{name}.{signal}"].to_numpy(), values[:, k], SAME_ALGEBRA)


def test_coefficients_give_the_motion_back(design, folder):
    record = json.loads((folder / "motion.json").read_text())
    q, qd, qdd, t = design.sample(50.0)
    for result, expected in zip(motion_at(record, t), (q, qd, qdd), strict=False):
        assert_close(result, expected, 1e-11)
    assert record["parameters"]["name"] == list(design.prediction.names)


def test_the_ros_trajectory_is_a_joint_trajectory(design, folder):
    yaml = pytest.importorskip("yaml")
    message = yaml.safe_load((folder / "motion.yaml").read_text())
    assert set(message) == {"header", "joint_names", "points"}
    assert message["joint_names"] == list(design.robot.joint_names)
    q, qd, qdd, t = design.sample(50.0)
    assert len(message["points"]) == len(t)
    point = message["points"][77]
    assert_close(point["positions"], q[77], SAME_ALGEBRA)
    assert_close(point["velocities"], qd[77], SAME_ALGEBRA)
    assert_close(point["accelerations"], qdd[77], SAME_ALGEBRA)
    since = point["time_from_start"]
    assert since["sec"] + 1e-9 * since["nanosec"] == pytest.approx(t[77])


def test_the_ros_trajectory_holds_numbers_alone(design, tmp_path):
    yaml = pytest.importorskip("yaml")
    motion = replace(design.motion, start=np.array([1e-5, -2e-20]), coefficients=0 * design.motion.coefficients)
    replace(design, motion=motion).write(tmp_path / "motion.yaml", rate_hz=1.0)
    point = yaml.safe_load((tmp_path / "motion.yaml").read_text())["points"][0]
    assert point["positions"] == [1e-5, -2e-20]


def unpack_curve(values):
    """Return the numbers of a curve, which are a list or packed exactly."""
    return np.array(values) if isinstance(values, list) else np.frombuffer(b64decode(values["data"]))


def test_the_plot_shows_every_joint_and_parameter_and_loads_nothing(design, folder):
    page = (folder / "motion.html").read_text()
    assert not re.search(r"(?:src|href|url\()=?[\"'(]?https?:", page)
    assert "default-src &#x27;none&#x27;" in page
    for name in (*design.robot.joint_names, *design.prediction.names):
        assert name in page
    (text,) = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', page, re.DOTALL)
    plots = json.loads(text)
    t = unpack_curve(plots["shared"]["run-time"])
    for j, joint in enumerate(design.robot.joints):
        panes = plots[f"joint-{j}"]["panes"]
        unit = {"revolute": "rad", "prismatic": "m"}[joint.kind]
        assert [(pane["y"]["label"], pane["y"]["unit"]) for pane in panes][:2] == [
            ("position", unit),
            ("velocity", f"{unit}/s"),
        ]
        velocity = unpack_curve(panes[1]["series"][-1]["y"])
        assert_close(velocity, design.run().derivative(t, 1)[:, j], 1e-9)
        assert set(panes[1]["series"][0]["y2"]) == {design.limits.velocity[j]}
        assert panes[1]["series"][0]["x"] == [t[0], t[-1]]
    scene = plots["scene"]
    assert scene["playback"]["times"][-1] == pytest.approx(design.run().seconds, abs=1e-4)
    assert scene["floor"] is None or plots["clearance"]["panes"][0]["series"][0]["name"] == "floor"
    assert not re.findall(r"[0-9]{5,} %", page)
    assert len(page) < 1e6, "of which three.js takes 0.57e6"


def test_the_plot_shows_volumes_and_the_closest_pair_along_the_motion():
    limits = mindyn.MotionLimits.of(mindyn.load_robot("ur10"), acceleration=5.0)
    design = design_motion(
        mindyn.load_robot("ur10"), seconds=6.0, limits=limits, starts=1, deadline_s=0.5, clearance_m=0.03
    )
    page = design.plot().html
    (text,) = re.findall(r'id="plots">(.*?)</script>', page, re.DOTALL)
    plots = json.loads(text)
    scene = plots["scene"]
    moving = {design.robot.link_index(capsule.link) + 1: capsule.link for capsule in design.capsules}
    assert [moving[shown["link"]] for shown in scene["capsules"]] == [capsule.link for capsule in design.capsules]
    for shown, capsule in zip(scene["capsules"], design.capsules, strict=True):
        both = [*shown["a"], *shown["b"], shown["radius"]], [*capsule.a, *capsule.b, capsule.radius]
        assert_close(*both, 1e-4)
    joints = scene["playback"]["joints"]  # positions, from which the page computes the poses of the links
    levels = np.frombuffer(b64decode(joints["data"]), "<u2").reshape(-1, 6)
    shown = joints["low"] + levels / 65535 * (joints["high"] - joints["low"])
    assert_close(shown, design.run().derivative(np.array(scene["playback"]["times"]), 0), 1e-4)
    assert "Translucent capsules are guesses for" in page
    assert "which may be larger" in page
    least = min(min(item["y"]) for item in plots["clearance"]["panes"][0]["series"])
    assert least >= design.check.closest.distance_m
    closest = scene["playback"]["closest"]
    assert design.check.closest.distance_m <= min(closest["gaps"]) <= least + 5e-3
    nearest = int(np.argmin(closest["gaps"]))
    series = plots["clearance"]["panes"][0]["series"]
    there = min(np.interp(closest["times"][nearest], item["x"], item["y"]) for item in series)
    assert abs(closest["gaps"][nearest] - there) < 5e-3
    torques = [plots[f"joint-{j}"]["panes"][-1] for j in range(6)]
    for pane, limit in zip(torques, design.limits.effort, strict=True):
        drawn = max(np.abs(unpack_curve(item["y"])).max() for item in pane["series"])
        assert drawn <= 2.5 * np.abs(unpack_curve(pane["series"][-1]["y"])).max() + 1e-9
        assert len(pane["series"]) == 2 or f"limit {limit:.3g}" in pane["y"]["label"]


def test_the_table_names_every_parameter_and_the_nearest_limits(design):
    text = design.table()
    assert all(name in text for name in design.prediction.names)
    assert "used of limits" in text
    assert design.status in text


def test_no_deviation_is_predicted_relative_to_a_value_that_may_be_zero(design):
    result = design.prediction
    tiny = replace(result, values=np.full(len(result.names), 1e-14))
    assert np.isnan(tiny.relative).all()
    assert "e+" not in replace(design, prediction=tiny).table()


def test_unknown_formats_and_folders_are_rejected(design, tmp_path):
    with raises(mindyn.MindynError, Code.UNSUPPORTED, ".doc"):
        design.write(tmp_path / "motion.doc")
    with raises(mindyn.MindynError, Code.MISSING_FILE, str(tmp_path / "nowhere")):
        design.write(tmp_path / "nowhere" / "motion.csv")
    with raises(mindyn.MindynError, Code.OUT_OF_RANGE, "rate_hz"):
        design.write(tmp_path, rate_hz=0.0)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with raises(mindyn.MindynError, Code.NOT_WRITABLE, str(tmp_path / "file")):
        design.write(tmp_path / "file")
    with raises(mindyn.MindynError, Code.NOT_WRITABLE, "inside"):
        design.write(tmp_path / "file" / "inside")


def test_a_folder_may_have_a_dot_in_its_name(design, tmp_path):
    (tmp_path / "motion.v2").mkdir()
    assert len(design.write(tmp_path / "motion.v2", rate_hz=10.0)) == len(ALL)


@pytest.mark.parametrize("suffix", [".csv", ".json", ".html", ".toml"])
def test_a_single_file_of_a_motion_comes_with_its_rehearsal(design, suffix, tmp_path):
    written = [path.name for path in design.write(tmp_path / f"run{suffix}", rate_hz=20.0)]
    assert {path.name for path in tmp_path.iterdir()} == set(written)
    if suffix in (".html", ".toml"):
        assert written == [f"run{suffix}"]
        return
    assert written == [f"run{suffix}", "run-rehearsal.csv"]
    if suffix == ".csv":
        ends = [float((tmp_path / name).read_text().splitlines()[-1].split(",")[0]) for name in written]
        assert_close(ends[1] * design.rehearsal_speed, ends[0], 0.05 * ends[0])


LIMITS = """
velocity = 2.0
effort = [150.0, 150.0]
noise = [0.1, 0.1]
start = [-1.28, 0.663]
[acceleration]
joint1 = 10.0
[workspace]
floor = -3.0
[[obstacles]]
a = [2.0, 2.0, 2.0]
radius = 0.1
[[obstacles]]
lower = [2.0, 3.0, 2.0]
upper = [2.5, 3.5, 2.5]
[[tool]]
a = [0.0, 0.0, 0.01]
radius = 0.02
"""


@pytest.fixture
def arm(tmp_path):
    robot = random_robot(11, joints=2, tree=False, gravity=(0.0, -9.81, 0.0))
    mindyn.write_toml(robot, tmp_path / "arm.toml")
    (tmp_path / "limits.toml").write_text(LIMITS)
    return tmp_path


def excite(folder, *options):
    given = ["excite", str(folder / "arm.toml"), "--seconds", "8", "--harmonics", "2", "--starts", "1"]
    whole = ["--speed", "1", "--acceleration", "1"]
    return CliRunner().invoke(app, [*given, *whole, "--limits", str(folder / "limits.toml"), *options])


def test_the_command_writes_all_files_and_prints_data_alone(arm):
    done = excite(arm, "--out", str(arm / "out"), "--json", "--verbose")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["limits"]["velocity"] == [2.0, 2.0]
    assert data["limits"]["acceleration"] == [10.0, None]
    assert {path.name for path in (arm / "out").iterdir()} == set(ALL)
    assert "search 1 of 1" in done.stderr
    robot = mindyn.load_robot(arm / "arm.toml")
    asked, draft = (read_limits_file(path / "limits.toml", robot) for path in (arm, arm / "out"))
    assert draft.start == asked.start == data["start"]
    for key in ("obstacles", "tool", "workspace"):
        assert surfaces(draft.surroundings[key]) == surfaces(asked.surroundings[key]), (
            "a draft without them is not safe"
        )


def test_a_draft_of_limits_comments_out_what_was_guessed(design):
    guessed = (guessed_limit("guessed", keys, ("a",)) for keys in (("lower", "upper"), ("acceleration",)))
    lines = limits_draft(replace(design, findings=tuple(guessed))).splitlines()[1:]
    marked = {line.split()[1] for line in lines if line.startswith("# ") and "{" in line}
    assert marked == {"lower", "upper", "acceleration"}


def surfaces(solids):
    """Return boxes and capsules as comparable values."""
    listed = solids if isinstance(solids, tuple) else (solids,)
    names = ("link", "a", "b", "radius", "lower", "upper")
    return [
        {name: np.asarray(getattr(item, name)).tolist() for name in names if hasattr(item, name)} for item in listed
    ]


def test_the_command_refuses_a_bad_target_before_it_searches(arm):
    done = excite(arm, "--out", str(arm / "motion.doc"))
    assert isinstance(done.exception, mindyn.MindynError)
    assert "search" not in done.stderr


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("obstacles = 3", "must be a list"),
        ("[[obstacles]]\na = [0, 0, 0]\nradius = 'thick'", "obstacles[0].radius = 'thick'"),
        ("[workspace]\nfloor = 'low'", "workspace.floor = 'low'"),
        ("[workspace]\nfloor = 0\nupper = [1, 1, 1]", "a floor or corners, not both"),
    ],
)
def test_the_command_refuses_impossible_surroundings(arm, table, words):
    (arm / "limits.toml").write_text(table)
    done = excite(arm)
    assert isinstance(done.exception, mindyn.MindynError), done.exception
    assert words in str(done.exception)


def test_the_command_refuses_unknown_limits(arm):
    (arm / "limits.toml").write_text("speed = 2.0\n")
    done = excite(arm)
    assert isinstance(done.exception, mindyn.MindynError)
    assert "unknown entry 'speed'" in str(done.exception)
