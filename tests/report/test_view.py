"""The page of a robot in space: what its script draws agrees with the kinematics and with the file."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape

import numpy as np
import pytest
from cli.program import mindyn_program as run
from raising import raises
from reported_arms import arm, estimate_of, log_of

import mindyn
from mindyn.foundation.algebra.inertia import mass_com_inertia
from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.model import compile_model
from mindyn.motions.excitation.motions import ApproachPath, Fourier, Motion, Run
from mindyn.output.view.dependence import describe_dependence, rest_position, slider_ranges, whole_positions
from mindyn.output.view.link_drawings import describe_inertia, find_impossible_links
from mindyn.output.view.playback import play_log, play_motion
from mindyn.output.view.write_view import link_poses

MESH = """<robot name="meshed"><link name="base"/>
<link name="beam"><visual><geometry><mesh filename="beam.obj"/></geometry></visual>
<inertial><mass value="2"/><inertia ixx="{ixx}" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="bare"/>
<joint name="turn" type="revolute"><parent link="base"/><child link="beam"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="2" velocity="1" effort="5"/></joint>
<joint name="end" type="revolute"><parent link="beam"/><child link="bare"/><origin xyz="0.4 0 0"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="2" velocity="1" effort="5"/></joint></robot>"""
CORNERS = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 3 4\nf 1 2 4\nf 2 3 4\n"


def numbers_of(page):
    """Return the JSON of a page."""
    text = re.search(r'<script type="application/json" id="plots">(.*?)</script>', page, re.DOTALL)[1]
    return json.loads(text)


def meshed(folder, ixx="0.01"):
    (folder / "beam.obj").write_text(CORNERS)
    (folder / "arm.urdf").write_text(MESH.format(ixx=ixx))
    return mindyn.load_robot(folder / "arm.urdf")


def test_a_page_has_the_numbers_of_the_robot_and_a_policy_for_each_script(tmp_path):
    robot = meshed(tmp_path)
    page = mindyn.write_view(robot, tmp_path / "view.html").read_text()
    scene = numbers_of(page)["scene"]
    assert [joint["name"] for joint in scene["joints"]] == ["turn", "end"]
    assert [mesh["link"] for mesh in scene["meshes"]] == [1]
    assert scene["ranges"] == [[-1, -1], [2, 2]]
    policy = unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1])
    assert "http" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) > 2
    for script in scripts:
        digest = b64encode(sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert len(page) < 1_000_000


def test_the_caption_says_what_is_drawn(tmp_path):
    page = mindyn.write_view(meshed(tmp_path), tmp_path / "view.html").read_text()
    assert "1 link by meshes (4 triangles)" in page
    guessed = mindyn.write_view(mindyn.load_robot("ur10"), tmp_path / "guess.html").read_text()
    assert "6 links by volumes, without meshes, guessed from the inertia" in guessed
    bare = mindyn.load_robot("planar2")
    bare = replace(bare, file="", links=tuple(replace(link, phi=None) for link in bare.links))
    lines = mindyn.write_view(bare, tmp_path / "lines.html").read_text()
    assert "as lines between joints, without shapes" in lines


def test_links_whose_inertia_no_body_has_are_marked(tmp_path):
    assert find_impossible_links(meshed(tmp_path)) == {}
    broken = meshed(tmp_path, ixx="0.05")  # more than the sum of the other two moments
    assert set(find_impossible_links(broken)) == {1}
    page = mindyn.write_view(broken, tmp_path / "view.html").read_text()
    scene = numbers_of(page)["scene"]
    assert [link["impossible"] is not None for link in scene["links"]] == [False, True, False]
    assert "No body can have the inertial parameters of the red links." in page


def test_an_ellipsoid_has_the_mass_and_inertia_of_its_link():
    """Integrate the density of the drawn ellipsoid over random points in it."""
    robot = mindyn.load_robot("puma560")
    link = robot.links[1]
    shape = describe_inertia(link)
    mass, com, J = mass_com_inertia(link.phi)
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (400_000, 3))
    inside = points[(points**2).sum(axis=1) < 1] * shape["half"] @ np.reshape(shape["axes"], (3, 3)).T
    squares = (inside[:, :, None] * inside[:, None, :]).mean(axis=0)
    inertia = mass * (squares.trace() * np.eye(3) - squares)
    np.testing.assert_allclose(inertia, J, atol=0.01 * np.abs(J).max())
    np.testing.assert_allclose(shape["com"], com, atol=1e-5)


@pytest.mark.parametrize("name", ["puma560", "five_bar"])
def test_poses_of_links_agree_with_the_kinematics(name):
    robot = mindyn.load_robot(name)
    q = rest_position(robot) + 0.05
    poses, model = link_poses(robot, q), compile_model(robot)
    for number, link in enumerate(robot.link_names, start=1):
        np.testing.assert_allclose(poses[number], model.forward_kinematics(q, link), atol=1e-9)


def test_sliders_of_a_closed_loop_keep_it_closed():
    robot = mindyn.load_robot("five_bar")
    home = rest_position(robot)
    low, high = slider_ranges(robot, home)
    how = describe_dependence(robot, home, low, high)
    assert how["kind"] == "tables"
    for k, positions in enumerate(how["positions"]):
        rows = np.frombuffer(b64decode(how["joints"][k].data)).reshape(len(positions), -1)
        q = np.tile(home, (len(positions), 1))
        q[:, k] = positions
        np.testing.assert_allclose(rows, whole_positions(robot, q), atol=1e-9)
        assert low[k] <= positions[0] < home[k] < positions[-1] <= high[k]


def test_a_run_plays_from_home_to_home_with_its_phases():
    robot = mindyn.load_robot("planar2")
    motion = Motion(Fourier(1), 6.0, np.array([0.2, 0.4]), np.full((2, 2), 0.1))
    way = ApproachPath(np.array([[0.0, 0.0], [0.2, 0.4]]), np.array([1.5]))
    played = play_motion(robot, Run(robot.primary_names, motion, way), None)
    assert [phase[0] for phase in played.phases] == ["approach", "motion", "return"]
    assert played.phases[1] == ("motion", 1.5, 7.5)
    np.testing.assert_allclose(played.q[[0, -1]], 0, atol=1e-12)
    with raises(InputError, Code.DISAGREEMENT, "motion"):
        play_motion(mindyn.load_robot("five_bar"), Run(robot.primary_names, motion), None)


def test_the_residual_of_a_run_is_that_of_its_estimate():
    robot = arm()
    estimate, log = estimate_of(robot), log_of(robot, 2)
    played = play_log(robot, log, estimate)
    assert played.torques.model == "the estimate"
    rms = np.sqrt(((played.torques.measured - played.torques.predicted) ** 2).mean(axis=0))
    np.testing.assert_allclose(rms, 0.05, rtol=0.2)
    by_file = play_log(robot, log, None)
    assert by_file.torques.model == "the robot file"
    bare = play_log(replace(robot, links=tuple(replace(link, phi=None) for link in robot.links)), log, None)
    assert bare.torques.predicted is None
    assert bare.residual is None


def test_a_page_shows_a_motion_or_a_log_not_both(tmp_path):
    robot = arm()
    motion = Motion(Fourier(1), 6.0, np.zeros(4), np.zeros((2, 4)))
    with raises(InputError, Code.DISAGREEMENT, "log"):
        mindyn.write_view(
            robot, tmp_path / "x.html", motion=Run(robot.primary_names, motion), log=log_of(robot, 1, count=200)
        )
    assert not (tmp_path / "x.html").exists()


def test_the_command_shows_a_robot_and_names_what_is_wrong(tmp_path):
    out = str(tmp_path / "view.html")
    done = run("view", "planar2", "--no-open", "--json", "--out", out)
    assert done.code == 0, done.err
    assert json.loads(done.out) == {"view": out, "shows": "robot", "joints": ["joint1", "joint2"]}
    missing = run("view", "planar2", str(tmp_path / "nothing"), "--no-open", "--out", out)
    assert missing.code == 1
    assert "does not exist" in missing.err
    alone = run("view", "planar2", "--log", "x.csv", "--no-open", "--out", out)
    assert alone.code == 1
    assert "--log needs a run" in alone.err


def test_the_bundled_script_is_the_version_of_its_tool():
    from importlib.resources import files

    import bundle_three

    assets = files("mindyn.output.view").joinpath("assets")
    assert f"three.js {bundle_three.THREE}" in assets.joinpath("three.js").read_text()[:200]
    assert "MIT License" in assets.joinpath("three-licence.txt").read_text()
