"""The tool on a force/torque sensor: values within intervals, bias, mounting, frame, sign, C, and ten CSV shapes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import mujoco
import numpy as np
import polars as pl
import pytest
from raising import raises

import mindyn
from mindyn.applications import identify_payload_from_wrench
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.algebra.rotations import quaternion_from_rotation, rotation_from_rpy
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind, Severity
from mindyn.logs import WrenchLog, read_wrench_log
from mindyn.logs.log_errors import LogError
from mindyn.robots.floating_base import rotations_from_quaternions

MASS, CENTRE = 1.3, np.array([0.02, -0.01, 0.09])
INERTIA = np.array([[0.006, 0.0004, -0.0003], [0.0004, 0.007, 0.0002], [-0.0003, 0.0002, 0.003]])
PHI = phi_about_origin(MASS, CENTRE, INERTIA)
BIAS = np.array([0.1, -0.2, 0.05, 2.0, -3.0, 5.0])
NOISE = np.array([0.005] * 3 + [0.1] * 3)
MOUNTED = rotation_from_rpy(0.3, -0.5, 1.0)
GRAVITY = np.array([0.0, 0.0, -9.81])


def attitudes(count: int, seed: int) -> np.ndarray:
    return rotations_from_quaternions(np.random.default_rng(seed).normal(size=(count, 4)))


def at_rest(R: np.ndarray, seed: int, bias: np.ndarray = BIAS, X: np.ndarray | None = None) -> np.ndarray:
    """Readings (N, 6) of the tool on the sensor by the definition of weight, moment and force."""
    rng = np.random.default_rng(seed)
    rows = []
    for rotation in R if X is None else R @ X:
        weight = MASS * rotation.T @ GRAVITY
        rows.append(np.concatenate([np.cross(CENTRE, weight), weight]))
    return np.array(rows) + bias + NOISE * rng.normal(size=(len(R), 6))


def to_world(R: np.ndarray, readings: np.ndarray) -> np.ndarray:
    return np.einsum("nij,nkj->nki", R, readings.reshape(-1, 2, 3)).reshape(-1, 6)


def kinds(result) -> list[Kind]:
    return [finding.kind for finding in result.findings]


def test_intervals_from_poses_at_rest_hold_the_values():
    inside = []
    for seed in range(40):
        R = attitudes(14, seed)
        payload = identify_payload_from_wrench(WrenchLog(at_rest(R, seed), R))
        low, high = payload.load.mass_interval
        inside.append(
            [
                low < MASS < high,
                *(np.abs(payload.load.centre - CENTRE) < payload.load.centre_half_widths),
                *(np.abs(payload.bias - BIAS) < payload.bias_half_widths),
            ]
        )
        assert payload.load.unidentifiable == ("Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz"), (
            "poses at rest show no inertia"
        )
        assert kinds(payload) == []
        assert 0.5 * 0.17 < payload.held_out_force < 2 * 0.17
    assert 0.92 <= np.mean(inside) <= 0.99


def test_axes_with_other_gains_widen_the_intervals_and_are_reported():
    inside, found = [], 0
    for seed in range(30):
        R, rng = attitudes(30, seed), np.random.default_rng(500 + seed)
        readings = BIAS + (at_rest(R, seed) - BIAS) * (1 + 0.03 * rng.normal(size=6))
        payload = identify_payload_from_wrench(WrenchLog(readings, R))
        low, high = payload.load.mass_interval
        inside.append([low < MASS < high, *(np.abs(payload.load.centre - CENTRE) < payload.load.centre_half_widths)])
        found += Kind.WRENCH_SCALE in kinds(payload)
    assert np.mean(inside) > 0.85
    assert found > 24


def test_rotation_of_the_sensor_is_estimated_with_intervals():
    inside = []
    for seed in range(15):
        R = attitudes(16, 1000 + seed)
        payload = identify_payload_from_wrench(WrenchLog(at_rest(R, seed, X=MOUNTED), R), estimate_rotation=True)
        error = MOUNTED.T @ payload.rotation
        angles = np.array([error[2, 1] - error[1, 2], error[0, 2] - error[2, 0], error[1, 0] - error[0, 1]]) / 2
        inside.append(
            [
                *(np.abs(angles) < payload.rotation_half_widths),
                abs(payload.load.mass - MASS) < payload.load.half_widths[0],
            ]
        )
    assert 0.9 <= np.mean(inside) <= 0.99
    known = identify_payload_from_wrench(WrenchLog(at_rest(R, 1, X=MOUNTED), R), rotation=MOUNTED)
    assert abs(known.load.mass - MASS) < 0.02
    level = np.array([rotation_from_rpy(0, 0, a) for a in np.linspace(0, 3, 8)])
    with raises(InputError, Code.NOT_IDENTIFIABLE, "rotation"):
        identify_payload_from_wrench(WrenchLog(at_rest(level, 0, X=MOUNTED), level), estimate_rotation=True)
    assert "m" in identify_payload_from_wrench(WrenchLog(at_rest(level, 0), level)).load.unidentifiable


def wave(seed: int, count: int, columns: int, rate_hz: float) -> tuple[np.ndarray, ...]:
    """Return positions, velocities and accelerations (N, columns)."""
    rng, t = np.random.default_rng(seed), np.arange(count)[:, None, None] / rate_hz
    w, phase = rng.uniform(1, 6, (3, columns)), rng.uniform(0, 6, (3, columns))
    return tuple(0.35 * (w**k * np.sin(w * t + phase + k * np.pi / 2)).sum(axis=1) for k in range(3))


def mujoco_sensor(q: np.ndarray, qd: np.ndarray, qdd: np.ndarray) -> tuple[np.ndarray, ...]:
    """Readings (N, 6) of MuJoCo's force and torque sensors at the flange of a 6R arm, and the poses of the sensor."""
    axes = ("0 0 1", "0 1 0", "0 1 0", "1 0 0", "0 1 0", "1 0 0")
    full = " ".join(f"{x:.17g}" for x in INERTIA[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])
    body = "".join(f'<body pos="0.1 0 0.2"><joint type="hinge" axis="{a}"/><geom size="0.01" mass="1"/>' for a in axes)
    tool = (
        f'<body name="tool" pos="0.05 0.02 0.1" euler="0.3 -0.2 0.5"><site name="ft"/><inertial mass="{MASS}" '
        f'pos="{CENTRE[0]} {CENTRE[1]} {CENTRE[2]}" fullinertia="{full}"/></body>'
    )
    text = (
        f'<mujoco><compiler angle="radian"/><option gravity="0 0 -9.81"/><worldbody>{body}{tool}{"</body>" * 6}'
        '</worldbody><sensor><force site="ft"/><torque site="ft"/></sensor></mujoco>'
    )
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    readings, poses = [], []
    for position, speed, acceleration in zip(q, qd, qdd, strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = position, speed, acceleration
        mujoco.mj_inverse(model, data)
        readings.append(np.concatenate([data.sensordata[3:], data.sensordata[:3]]))
        poses.append((data.site("ft").xmat.reshape(3, 3).copy(), data.site("ft").xpos.copy()))
    return np.array(readings), np.array([R for R, _ in poses]), np.array([p for _, p in poses])


def test_motion_of_a_simulated_arm_shows_the_inertia_and_the_sign_of_the_sensor():
    rate = 200.0
    readings, R, position = mujoco_sensor(*wave(1, 1600, 6, rate))
    rng = np.random.default_rng(3)
    noisy = readings + BIAS + 0.5 * NOISE * rng.normal(size=readings.shape)
    log = WrenchLog(noisy, R, position, time=np.arange(len(R)) / rate)
    payload = identify_payload_from_wrench(log)
    assert payload.load.unidentifiable == ()
    assert (np.abs(payload.load.phi - PHI) < 1.3 * payload.load.half_widths).all()
    assert (np.abs(payload.bias - BIAS) < 1.3 * payload.bias_half_widths).all()
    assert payload.load.half_widths[4:].max() < 0.2 * INERTIA[0, 0]
    # MuJoCo's force sensor is the force of the parent on the child: the reaction.
    assert (payload.acts_on, kinds(payload)) == ("tool", [Kind.WRENCH_SIGN])
    turned = WrenchLog(noisy, R @ MOUNTED.T, position, time=log.time, acts_on="tool")
    by_rotation = identify_payload_from_wrench(turned, estimate_rotation=True)
    assert np.abs(by_rotation.rotation - MOUNTED).max() < 0.01
    assert (np.abs(by_rotation.load.phi - PHI) < 1.5 * by_rotation.load.half_widths).all()


def test_without_positions_only_rows_at_rest_are_used():
    R = np.repeat(attitudes(10, 3), 200, axis=0)
    readings = at_rest(R, 1)
    moving = np.arange(len(R)) % 200 < 20
    readings[moving] += 50.0
    log = WrenchLog(readings, R, time=np.arange(len(R)) / 100)
    payload = identify_payload_from_wrench(log, cutoff_hz=20.0)
    assert "Ixx" in payload.load.unidentifiable
    assert abs(payload.load.mass - MASS) < 0.2


def test_joint_positions_with_a_robot_equal_attitudes():
    robot = mindyn.load_robot("puma560")
    q = np.random.default_rng(0).uniform(-2, 2, (20, 6))
    R = mindyn.compile_model(robot).forward_kinematics(q, "link6")[:, :3, :3]
    readings = at_rest(R, 2)
    by_joints = identify_payload_from_wrench(WrenchLog(readings, q=q), robot)
    by_attitude = identify_payload_from_wrench(WrenchLog(readings, R))
    assert np.allclose(by_joints.load.phi, by_attitude.load.phi, atol=1e-9)
    assert by_joints.load.link == "link6"
    with raises(InputError, Code.MISSING_VALUE, "robot"):
        identify_payload_from_wrench(WrenchLog(readings, q=q))


@pytest.mark.parametrize("bias", [BIAS, 0 * BIAS], ids=["biased", "tared"])
def test_a_wrong_frame_is_one_finding_and_a_right_one_none(bias):
    for seed in range(6):
        R = attitudes(12, seed)
        in_sensor = at_rest(R, seed, bias)
        in_world = to_world(R, in_sensor)
        for frame, readings, is_wrong in (
            ("sensor", in_sensor, False),
            ("world", in_world, False),
            ("sensor", in_world, True),
            ("world", in_sensor, True),
        ):
            payload = identify_payload_from_wrench(WrenchLog(readings, R, frame=frame))
            assert kinds(payload) == [Kind.WRENCH_FRAME] * is_wrong
            assert all(finding.severity is Severity.ERROR for finding in payload.findings)
            assert is_wrong or abs(payload.load.mass - MASS) < 0.03


def test_a_wrong_declared_sign_is_an_error_and_an_unknown_one_is_found():
    R = attitudes(12, 0)
    readings = at_rest(R, 0)
    reversed_sign = identify_payload_from_wrench(WrenchLog(-readings, R))
    assert kinds(reversed_sign) == [Kind.WRENCH_SIGN]
    assert reversed_sign.acts_on == "tool"
    assert np.abs(reversed_sign.bias + BIAS).max() < 0.2, "the bias is what the sensor reads"
    assert np.abs(reversed_sign.wrench(R) + readings).max() < 0.5
    assert kinds(identify_payload_from_wrench(WrenchLog(-readings, R, acts_on="tool"))) == []
    wrong = identify_payload_from_wrench(WrenchLog(readings, R, acts_on="tool"))
    assert [(finding.kind, finding.severity) for finding in wrong.findings] == [(Kind.WRENCH_SIGN, Severity.ERROR)]


@pytest.mark.parametrize("frame", ["sensor", "world"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_exported_c_removes_weight_and_bias(tmp_path, frame, sign):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    R = attitudes(12, 5)
    readings = sign * at_rest(R, 5, X=MOUNTED)
    given = to_world(R @ MOUNTED, readings) if frame == "world" else readings
    log = WrenchLog(given, R, frame=frame)
    payload = identify_payload_from_wrench(log, rotation=MOUNTED)
    payload.write_c(tmp_path / "tool.h")
    (tmp_path / "t.c").write_text('#include "tool.h"\nvoid f(const double *R, const double *a, const double *b, '
                                  "double *c, double *d) { tool_compensate(R, a, b, c, d); }\n")  # fmt: skip
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")
    subprocess.run([compiler, *flags, "-o", tmp_path / "t.so", tmp_path / "t.c"], check=True)
    function = ctypes.CDLL(str(tmp_path / "t.so")).f
    at = lambda array: array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))  # noqa: E731
    push = np.array([0.3, -0.2, 0.1, 4.0, -5.0, 6.0])  # of the environment on the tool, in the axes of the sensor
    for rotation, expected in zip(R, payload.wrench(R), strict=True):
        extra = to_world((rotation @ MOUNTED)[None], push[None])[0] if frame == "world" else push
        reading = expected + (1.0 if payload.acts_on == "sensor" else -1.0) * extra
        turn, force, moment = np.ascontiguousarray(rotation), reading[3:].copy(), reading[:3].copy()
        left = np.zeros(6)
        function(at(turn), at(force), at(moment), at(left[3:]), at(left[:3]))
        assert np.abs(left - push).max() < 1e-12
    with raises(InputError, Code.WRONG_FORMAT, "tool.c"):
        payload.write_c(tmp_path / "tool.c")


def quaternions(R: np.ndarray) -> np.ndarray:
    return np.array([np.roll(quaternion_from_rotation(rotation), -1) for rotation in R])


def rotation_vectors(R: np.ndarray) -> np.ndarray:
    s = quaternions(R)
    angle = 2 * np.arctan2(np.linalg.norm(s[:, :3], axis=1), s[:, 3])
    return s[:, :3] / np.linalg.norm(s[:, :3], axis=1)[:, None] * angle[:, None]


def name_columns(names: str, values: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(names.split(","), values.T, strict=True))


SHAPES = {
    "plain": lambda w, R: name_columns(
        "Fx,Fy,Fz,Tx,Ty,Tz,qx,qy,qz,qw", np.hstack([w[:, 3:], w[:, :3], quaternions(R)])
    ),
    "units": lambda w, R: name_columns(
        "time [s],Fx [N],Fy [N],Fz [N],Mx [Nm],My [Nm],Mz [Nm],Quat_x,Quat_y,Quat_z,Quat_w",
        np.hstack([np.arange(len(w))[:, None], w[:, 3:], w[:, :3], quaternions(R)]),
    ),
    "millimetres": lambda w, R: name_columns(
        "Fx (N),Fy (N),Fz (N),Tx (Nmm),Ty (Nmm),Tz (Nmm),qw,qx,qy,qz",
        np.hstack([w[:, 3:], 1e3 * w[:, :3], np.roll(quaternions(R), 1, axis=1)]),
    ),
    "ros1 rostopic echo -p": lambda w, R: name_columns(
        "%time,field.header.seq,field.wrench.force.x,field.wrench.force.y,field.wrench.force.z,field.wrench.torque.x,"
        "field.wrench.torque.y,field.wrench.torque.z,field.pose.orientation.x,field.pose.orientation.y,"
        "field.pose.orientation.z,field.pose.orientation.w",
        np.hstack(
            [1.7e18 + 1e9 * np.arange(len(w))[:, None], np.arange(len(w))[:, None], w[:, 3:], w[:, :3], quaternions(R)]
        ),
    ),
    "plotjuggler": lambda w, R: name_columns(
        "__time,/ft/wrench/force/x,/ft/wrench/force/y,/ft/wrench/force/z,/ft/wrench/torque/x,/ft/wrench/torque/y,"
        "/ft/wrench/torque/z,/tf/rotation/x,/tf/rotation/y,/tf/rotation/z,/tf/rotation/w",
        np.hstack([np.arange(len(w))[:, None], w[:, 3:], w[:, :3], quaternions(R)]),
    ),
    "underscores": lambda w, R: name_columns(
        "timestamp,force_x,force_y,force_z,torque_x,torque_y,torque_z,orientation_x,orientation_y,orientation_z,"
        "orientation_w",
        np.hstack([np.arange(len(w))[:, None], w[:, 3:], w[:, :3], quaternions(R)]),
    ),
    "capitals": lambda w, R: name_columns(
        "Force X,Force Y,Force Z,Moment X,Moment Y,Moment Z,Quaternion X,Quaternion Y,Quaternion Z,Quaternion W",
        np.hstack([w[:, 3:], w[:, :3], quaternions(R)]),
    ),
    "ur rtde": lambda w, R: name_columns(
        ",".join([*(f"actual_TCP_force_{k}" for k in range(6)), *(f"actual_TCP_pose_{k}" for k in range(6))]),
        np.hstack([np.roll(to_world(R, w), 3, axis=1), np.zeros((len(w), 3)), rotation_vectors(R)]),
    ),
    "franka base": lambda w, R: name_columns(
        ",".join([*(f"O_F_ext_hat_K[{k}]" for k in range(6)), "qx,qy,qz,qw"]),
        np.hstack([np.roll(to_world(R, w), 3, axis=1), quaternions(R)]),
    ),
    "franka stiffness frame": lambda w, R: name_columns(
        ",".join([*(f"K_F_ext_hat_K_{k}" for k in range(6)), "rx,ry,rz"]),
        np.hstack([np.roll(w, 3, axis=1), rotation_vectors(R)]),
    ),
    "numbered": lambda w, R: name_columns(
        ",".join([*(f"wrench_{k}" for k in range(6)), "q_x,q_y,q_z,q_w"]),
        np.hstack([np.roll(w, 3, axis=1), quaternions(R)]),
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("separator", [",", ";"])
def test_shapes_of_common_drivers_give_the_same_tool(tmp_path, shape, separator):
    R = attitudes(12, 7)
    pl.DataFrame(SHAPES[shape](at_rest(R, 7), R)).write_csv(tmp_path / "ft.csv", separator=separator)
    payload = identify_payload_from_wrench(read_wrench_log(tmp_path / "ft.csv"))
    expected = identify_payload_from_wrench(WrenchLog(at_rest(R, 7), R))
    assert np.allclose(payload.load.phi, expected.load.phi, atol=1e-6)
    assert np.allclose(payload.bias, expected.bias, atol=1e-6)
    assert [kind for kind in kinds(payload) if kind is not Kind.LOG_SETTING] == []


def test_metadata_replace_guesses_from_names_and_bad_input_is_named(tmp_path):
    R = attitudes(12, 7)
    table = pl.DataFrame(name_columns("a,b,c,d,e,f,g,h,i,j", np.hstack([at_rest(R, 7), quaternions(R)])))
    table.write_csv(tmp_path / "ft.csv")
    with raises(LogError, Code.MISSING_VALUE, "force"):
        read_wrench_log(tmp_path / "ft.csv")
    (tmp_path / "ft.csv.toml").write_text(
        'columns = { torque = ["a", "b", "c"], force = ["d", "e", "f"], orientation = ["g", "h", "i", "j"] }\n'
        'units = { force = "mN" }\nacts_on = "sensor"\n'
    )
    assert np.allclose(read_wrench_log(tmp_path / "ft.csv").wrench[:, 3:], 1e-3 * at_rest(R, 7)[:, 3:])
    log = read_wrench_log(tmp_path / "ft.csv", metadata={"units": {"force": "N"}})
    assert abs(identify_payload_from_wrench(log).load.mass - MASS) < 0.02
    for wrong in ({"frame": "tool"}, {"units": {"force": "kgf"}}, {"columns": {"force": ["d"]}}, {"sign": 1}):
        with raises(LogError, Code.UNKNOWN_NAME if "sign" in wrong else Code.INVALID_VALUE):
            read_wrench_log(tmp_path / "ft.csv", metadata=wrong)
    with raises(LogError, Code.INVALID_VALUE, "the metadata of ft.csv: columns.force"):
        read_wrench_log(tmp_path / "ft.csv", metadata={"columns": {"force": ["d"]}})
    with raises(LogError, Code.UNKNOWN_NAME, "z"):
        read_wrench_log(tmp_path / "ft.csv", metadata={"columns": {"force": ["d", "e", "z"]}})
    with raises(LogError, Code.MISSING_VALUE, "orientation"):
        WrenchLog(at_rest(R, 7))
    with raises(LogError, Code.NOT_FINITE, "wrench"):
        WrenchLog(np.full((12, 6), np.nan), R)
    with raises(LogError, Code.WRONG_SHAPE, "rotation"):
        WrenchLog(at_rest(R, 7), R[:5])
    with raises(InputError, Code.TOO_LITTLE_DATA):
        identify_payload_from_wrench(WrenchLog(at_rest(R, 7)[:3], R[:3]))
