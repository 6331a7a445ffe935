"""The reference check of motions agrees with MuJoCo's own distances and sees what a wrong motion hits."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from closeness import assert_close
from oracles.collision_scene import SceneError, load_scene
from oracles.motion_reference import FAR_M, Motion, check_motion, read_motion
from oracles.mujoco_player import model_with_floor, play
from robots_with_bodies import write_random_robot

PENDULUM = """<robot name="pendulum"><link name="base"/>
<link name="rod"><inertial><origin xyz="0.2 0 0"/><mass value="2"/>
<inertia ixx="0.002" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.03"/></inertial>{shape}</link>
<joint name="hinge" type="revolute"><parent link="base"/><child link="rod"/><origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" velocity="2" effort="50"/></joint></robot>"""
BOX = '<collision><origin xyz="0.2 0 0"/><geometry><box size="0.4 0.02 0.02"/></geometry></collision>'


def swing(joints, amplitude: float, seconds: float = 4.0) -> Motion:
    t = np.arange(int(100 * seconds) + 1) / 100
    w = 2 * np.pi / seconds
    rows = [amplitude * x for x in ((1 - np.cos(w * t)) / 2, w * np.sin(w * t) / 2, w**2 * np.cos(w * t) / 2)]
    return Motion(t, *({name: row / (1 + k) for k, name in enumerate(joints)} for row in rows))


@pytest.mark.parametrize("seed", [1, 6, 8, 12])
def test_distances_between_bodies_equal_mujoco(seed, tmp_path):
    robot = write_random_robot(seed, tmp_path)
    scene, model = load_scene(robot.original), mujoco.MjModel.from_xml_path(str(robot.original))
    motion = swing(scene.joints, 0.8)
    check = check_motion(scene, motion, floor_m=None)
    data, fine = mujoco.MjData(model), motion.refine(250.0)
    expected = dict.fromkeys(check.pairs, FAR_M)
    for row in np.array([fine[name] for name in scene.joints]).T:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        for a in range(model.ngeom):
            for b in range(a):
                first, second = sorted(model.geom_bodyid[[a, b]])
                name = f"{model.body(first).name} - {model.body(second).name}"
                if name in expected:
                    distance = mujoco.mj_geomDistance(model, data, a, b, FAR_M, None)
                    expected[name] = min(expected[name], distance)
    assert len(expected) > 5
    apart = [name for name, value in expected.items() if value > 0]
    assert_close(np.array([check.pairs[name] for name in apart]), np.array([expected[name] for name in apart]), 1e-3)
    assert all(check.pairs[name] <= 1e-6 for name, value in expected.items() if value < -1e-4)


@pytest.mark.parametrize("seed", [0, 5, 12])
def test_heights_equal_those_of_points_on_the_surface(seed, tmp_path):
    """MuJoCo shoots rays upwards from below the floor; the nearest hit is the lowest point of what is above it."""
    robot = write_random_robot(seed, tmp_path)
    scene, model = load_scene(robot.original), mujoco.MjModel.from_xml_path(str(robot.original))
    motion = swing(scene.joints, 0.7)
    check = check_motion(scene, motion)
    data, fine = mujoco.MjData(model), motion.refine(250.0)
    lowest = {}
    for row in np.array([fine[name] for name in scene.joints]).T[::50]:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        for geom in range(model.ngeom):
            body = model.body(model.geom_bodyid[geom]).name
            size = model.geom_rbound[geom]
            for x, y in np.random.default_rng(0).uniform(-size, size, (200, 2)):
                start, up = data.geom_xpos[geom] + [x, y, -2.0], np.array([0, 0, 1.0])
                kind = model.geom_type[geom]
                mesh = kind == mujoco.mjtGeom.mjGEOM_MESH
                pose = data.geom_xpos[geom], data.geom_xmat[geom]
                ray = (
                    mujoco.mj_rayMesh(model, data, geom, start, up)
                    if mesh
                    else mujoco.mju_rayGeom(*pose, model.geom_size[geom], start, up, kind)
                )
                if ray >= 0:
                    lowest[body] = min(lowest.get(body, np.inf), start[2] + ray)
    assert check.floor
    for body, height in check.floor.items():
        assert height <= lowest[body] + 1e-6
        assert height > lowest[body] - 0.05


def test_a_motion_into_the_floor_is_detected_and_one_above_it_is_not(tmp_path):
    path = tmp_path / "pendulum.urdf"
    path.write_text(PENDULUM.format(shape=BOX))
    scene, model = load_scene(path), model_with_floor(path)
    for amplitude, safe in ((0.6, True), (1.2, False)):
        motion = swing(["hinge"], amplitude)
        check = check_motion(scene, motion)
        lowest = 0.3 - 0.4 * np.sin(amplitude) - 0.01 * np.cos(amplitude)
        assert_close(check.smallest[0], lowest, 1e-3)
        assert check.is_safe == safe
        played = play(model, motion)
        assert bool(played.contacts) != safe
        assert not safe or played.tracking_error < 0.01


def test_a_body_without_geoms_is_played_as_the_box_of_its_inertia(tmp_path):
    path = tmp_path / "pendulum.urdf"
    path.write_text(PENDULUM.format(shape=""))
    model = model_with_floor(path)
    sizes = model.geom_size[model.geom_type == mujoco.mjtGeom.mjGEOM_BOX]
    x, y, z = 0.002, 0.03, 0.03
    expected = np.sqrt(6 * np.array([y + z - x, x + z - y, x + y - z]) / 2) / 2
    assert_close(np.sort(sizes[0]), np.sort(expected), 1e-6)
    assert play(model, swing(["hinge"], 1.2)).contacts


def test_limits_count_as_fractions_of_the_files(tmp_path):
    path = tmp_path / "pendulum.urdf"
    path.write_text(PENDULUM.format(shape=BOX))
    motion = swing(["hinge"], 1.0)
    check = check_motion(load_scene(path), motion)
    assert_close(check.limits["position"], 0.5, 1e-9)
    assert_close(check.limits["velocity"], np.pi / 4 / 2, 1e-3)
    assert_close(check.limits["torque"], 2 * 9.81 * 0.2 / 50, 0.1)
    assert not check_motion(load_scene(path), swing(["hinge"], 2.1)).is_safe


def test_written_samples_are_read_with_their_comments(tmp_path):
    path = tmp_path / "motion.csv"
    path.write_text("# checked by hand\ntime,a.b.position,a.b.velocity,a.b.acceleration\n0,1,0,0\n0.5,2,0,0\n")
    motion = read_motion(path)
    assert motion.q["a.b"].tolist() == [1.0, 2.0]
    assert_close(motion.refine(4.0)["a.b"], np.array([1.0, 1.5, 2.0]), 1e-12)


def test_a_missing_mesh_is_an_error(tmp_path):
    path = tmp_path / "pendulum.urdf"
    mesh = '<collision><geometry><mesh filename="package://nowhere/rod.stl"/></geometry></collision>'
    path.write_text(PENDULUM.format(shape=mesh))
    with pytest.raises(SceneError, match=r"rod\.stl"):
        load_scene(path)


LEGS = """<mujoco><compiler angle="radian"/><worldbody><body name="hip"><geom type="sphere" size="0.02"/>
<body name="left"><joint name="left" axis="0 1 0" range="-1 1"/>
<geom type="capsule" fromto="0 0.05 0 0 0.05 -0.3" size="{radius}"/></body>
<body name="right"><joint name="right" axis="0 1 0" range="-1 1"/>
<geom type="capsule" fromto="0 -0.05 0 0 -0.05 -0.3" size="0.05"/></body></body></worldbody></mujoco>"""


def test_legs_that_touch_at_their_common_axis_in_every_position_are_listed_and_not_counted(tmp_path):
    """Distances of 0 are measured as -1e-17 here and 1e-17 there; a leg that is only sometimes near counts."""
    path = tmp_path / "legs.xml"
    path.write_text(LEGS.format(radius=0.05))
    check = check_motion(load_scene(path), swing(["left", "right"], 0.8), floor_m=None)
    assert check.always_touching == ("left - right",)
    assert "left - right" not in check.pairs
    bent = LEGS.format(radius=0.05).replace('fromto="0 0.05 0 0 0.05 -0.3"', 'fromto="0 0.06 0 0 0.04 -0.3"')
    path.write_text(bent)
    check = check_motion(load_scene(path), swing(["left", "right"], 0.01), floor_m=None)
    assert not check.is_safe
    assert check.pairs["left - right"] <= 0
