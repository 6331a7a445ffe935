"""One result of each package against Pinocchio, SciPy or a formula: a factor or a sign in it is seen within seconds.

`tools/gross_faults.py` introduces such faults; each must fail a test of this folder.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import polars as pl
import pytest
from closeness import ORACLE, SAME_ALGEBRA, assert_close
from fleet.fleets import ARM, SETTINGS, SIDECAR, log_bytes
from plants.mujoco_servo import random_plant, record_servos, write_arm
from scipy.integrate import solve_ivp
from scipy.signal import butter, freqz_sos

import mindyn
from mindyn.applications import identify_payload_from_wrench, study_fleet
from mindyn.identification import identify_elasticity
from mindyn.identification.uncertainty.block_deviation import with_jackknife_deviation
from mindyn.logs import AS_LOGGED, WrenchLog
from mindyn.logs.filters import lowpass
from mindyn.papers.lin_paper import slide_operations
from mindyn.robots.floating_base import rotations_from_quaternions

SETTINGS_AS_LOGGED = mindyn.EquationSettings(AS_LOGGED)
BODY = """<link name="{child}"><inertial><origin xyz="0.1 -0.03 0.05" rpy="0.2 0.4 -0.6"/><mass value="{mass}"/>
  <inertia ixx="0.03" ixy="0.002" ixz="-0.001" iyy="0.04" iyz="0.003" izz="0.02"/></inertial></link>
<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>
  <origin xyz="0.3 0.1 {height}" rpy="{rpy}"/><axis xyz="{axis}"/>
  <limit lower="-3" upper="3" effort="50" velocity="4"/></joint>"""
JOINTS = (
    ("j1", "revolute", "base", "l1", "0.1 -0.7 0.5", "0 0 1", 3.0),
    ("j2", "prismatic", "l1", "l2", "1.1 0.3 -0.4", "0 1 0", 2.0),
    ("j3", "revolute", "l2", "l3", "-0.6 0.9 0.2", "0.6 0 0.8", 1.5),
)


@pytest.fixture(scope="module")
def urdf(tmp_path_factory) -> Path:
    """Return the URDF of an arm with turned frames, a slide and an oblique axis."""
    fields = ("name", "kind", "parent", "child", "rpy", "axis", "mass")
    bodies = [BODY.format(**dict(zip(fields, joint, strict=True)), height=0.2) for joint in JOINTS]
    path = tmp_path_factory.mktemp("urdf") / "arm.urdf"
    path.write_text(f'<robot name="arm"><link name="base"/>{"".join(bodies)}</robot>')
    return path


@pytest.fixture(scope="module")
def states() -> np.ndarray:
    """Return q, qd and qdd of 40 states of three joints."""
    return np.random.default_rng(3).uniform(-2.5, 2.5, (3, 40, 3))


@pytest.fixture(scope="module")
def torques(urdf, states) -> np.ndarray:
    """Return Pinocchio's torques of the states."""
    model = pin.buildModelFromUrdf(str(urdf))
    data = model.createData()
    return np.array([pin.rnea(model, data, *state) for state in states.transpose(1, 0, 2)])


def test_torques_and_regressor_of_a_urdf_are_pinocchios(urdf, states, torques):
    model = mindyn.compile_model(mindyn.load_robot(urdf))
    assert_close(model.inverse_dynamics(*states), torques, ORACLE)
    assert_close(model.regressor(*states) @ model.base.values, torques, ORACLE)
    rigid = pin.buildModelFromUrdf(str(urdf))
    data = rigid.createData()
    whole = np.vstack([pin.computeJointTorqueRegressor(rigid, data, *s).copy() for s in states.transpose(1, 0, 2)])
    assert model.base.count == np.linalg.matrix_rank(whole, tol=1e-8)


def test_drives_add_the_torque_of_their_formula(urdf, states, torques):
    """tau = rnea + r^2 Im qdd + fv qd + fc sign(qd) + fo with friction at the joint."""
    robot = mindyn.load_robot(urdf)
    drives = [mindyn.Drive(name, 50.0, {}, 2e-4, 0.7, 1.1, 0.3) for name in robot.joint_names]
    model = mindyn.compile_model(replace(robot, drives=tuple(drives)), with_drives=True)
    expected = torques + 50.0**2 * 2e-4 * states[2] + 0.7 * states[1] + 1.1 * np.sign(states[1]) + 0.3
    assert_close(model.inverse_dynamics(*states), expected, ORACLE)


@pytest.mark.parametrize(("method", "rtol"), [("adaptive", 1e-8), ("fixed", 1e-6)])
def test_a_simulated_motion_is_that_of_scipy_and_pinocchio(urdf, method, rtol):
    model = pin.buildModelFromUrdf(str(urdf))
    data, tau, start = model.createData(), np.array([1.0, 2.0, -0.5]), np.array([0.3, -0.2, 0.5])

    def slope(_time, state):
        return np.concatenate([state[3:], pin.aba(model, data, state[:3], state[3:], tau)])

    rows = np.linspace(0, 0.5, 26)
    expected = solve_ivp(slope, (0, 0.5), [*start, 0, 0, 0], t_eval=rows, rtol=1e-11, atol=1e-11).y[:3].T
    motion = mindyn.simulate(
        mindyn.load_robot(urdf),
        lambda _time, _q, _qd: tau,
        seconds=0.5,
        q0=start,
        rate_hz=50.0,
        method=method,
        longest_step_s=1e-3,
    )
    assert_close(motion.q, expected, rtol)


@pytest.mark.parametrize(
    ("units", "factors"),
    [
        (("s", "rad", "rad/s", "N m"), (1, 1, 1, 1)),
        (("ms", "deg", "deg/s", "mN m"), (1e3, 180 / np.pi, 180 / np.pi, 1e3)),
        (("us", "deg", "rpm", "N m"), (1e6, 180 / np.pi, 30 / np.pi, 1)),
    ],
)
def test_a_log_has_the_values_of_its_file_in_si_units(units, factors, tmp_path):
    time = np.arange(300) / 100
    signals = {
        "time": time[:, None],
        "position": np.column_stack([np.sin(3 * time), np.cos(2 * time)]),
        "velocity": np.column_stack([3 * np.cos(3 * time), -2 * np.sin(2 * time)]),
        "torque": np.column_stack([20 * np.sin(time), 5 * np.cos(time)]),
    }
    table = {
        f"{name}{k + 1}": factor * signals[name][:, k]
        for name, factor in zip(signals, factors, strict=True)
        for k in range(signals[name].shape[1])
    }
    pl.DataFrame(table).write_csv(tmp_path / "run.csv")
    columns = {name: "time1" if name == "time" else f"{name}{{i}}" for name in signals}
    stated = {"columns": columns, "units": dict(zip(signals, units, strict=True)), "side": "joint"}
    log = mindyn.read_log(tmp_path / "run.csv", mindyn.load_robot("planar2"), metadata=stated)
    for values, name in ((log.time[:, None], "time"), (log.q, "position"), (log.qd, "velocity"), (log.tau, "torque")):
        assert_close(values, signals[name], SAME_ALGEBRA)


def test_a_filter_forwards_and_backwards_has_the_squared_gain_of_butterworth():
    rate_hz, cutoff_hz, time = 200.0, 5.0, np.arange(4000) / 200.0
    for frequency in (2.0, 5.0, 8.0):
        wave = np.sin(2 * np.pi * frequency * time)[:, None]
        gain = np.abs(freqz_sos(butter(4, cutoff_hz, fs=rate_hz, output="sos"), [frequency], fs=rate_hz)[1][0]) ** 2
        assert_close(lowpass(wave, cutoff_hz, rate_hz)[1000:3000], gain * wave[1000:3000], 1e-6)


def planar_log(*, viscous: float = 0.0, coulomb: float = 0.0, noise: float = 0.01, stiffness: np.ndarray | None = None):
    """Return the planar arm without its drives, and its log on sums of sines."""
    robot = replace(mindyn.load_robot("planar2"), drives=())
    rng, time = np.random.default_rng(2), np.arange(2400) / 200.0
    w, phase = rng.uniform(1, 6, (4, 2)), rng.uniform(0, 6, (4, 2))
    angle = time[:, None, None] * w + phase
    q, qd, qdd = (
        0.4 * (w**k * np.array([np.sin, np.cos, lambda x: -np.sin(x)][k](angle))).sum(axis=1) for k in range(3)
    )
    tau = mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd)
    measured = tau + viscous * qd + coulomb * np.sign(qd)
    measured += noise * np.std(tau, axis=0) * rng.standard_normal(tau.shape)
    motor_q = None if stiffness is None else q + tau / stiffness
    return robot, mindyn.log_from_arrays(robot, time, q, measured, qd, qdd, motor_q=motor_q)


@pytest.mark.parametrize(
    "friction",
    [mindyn.Friction(), mindyn.Friction("tanh", 0.01), mindyn.Friction("sign", shapes=("root",))],
    ids=lambda friction: "-".join((friction.direction, *friction.shapes)),
)
def test_identified_friction_is_that_of_the_log(friction):
    robot, log = planar_log(viscous=40.0, coulomb=60.0, noise=1e-3)
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), replace(SETTINGS_AS_LOGGED, friction=friction))
    for joint in (1, 2):
        assert estimate.value(f"fv{joint}") == pytest.approx(40.0, rel=0.1)
        assert estimate.value(f"fc{joint}") == pytest.approx(60.0, rel=0.1)


def test_deviations_are_those_of_fits_without_each_part_of_the_log():
    """Noise that lasts for a part of the log widens the intervals to the jackknife of least squares by NumPy."""
    robot, log = planar_log()
    drift = 0.1 * np.std(log.tau, axis=0) * np.random.default_rng(8).standard_normal((24, 1, 2))
    rows = mindyn.build_rows(
        robot, replace(log, tau=log.tau + drift.repeat(100, axis=1).reshape(2400, 2)), SETTINGS_AS_LOGGED
    )
    estimate = mindyn.LeastSquares().fit(rows)
    wide = with_jackknife_deviation(estimate, rows.blocks)
    parts = [block.information.stacked(estimate.data.joint_weights) for block in rows.blocks]
    without = [
        np.linalg.lstsq(*map(np.concatenate, zip(*(part for part in parts if part is not left), strict=True)))[0]
        for left in parts
    ]
    m = len(parts)
    expected = np.sqrt((m - 1) / m * ((np.array(without) - estimate.beta) ** 2).sum(axis=0))
    assert (expected > 1.5 * estimate.deviations).sum() > 3
    assert_close(wide.deviations, np.maximum(expected, estimate.deviations), 1e-6)


def test_the_stiffness_is_torque_over_deflection():
    stiffness = np.array([4e4, 9e3])
    robot, log = planar_log(stiffness=stiffness)
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), SETTINGS_AS_LOGGED)
    elasticity = identify_elasticity(estimate, log)
    assert elasticity["joint2"].stiffness == pytest.approx(stiffness[1], rel=0.02)


def test_values_that_no_robot_can_have_are_infeasible():
    robot, log = planar_log()
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), SETTINGS_AS_LOGGED)
    assert mindyn.check_feasible(mindyn.make_feasible(estimate)).is_infeasible is False
    assert mindyn.check_feasible(estimate.with_values(beta=-estimate.beta)).is_infeasible is True


def test_servo_gains_are_those_of_mujocos_actuators(tmp_path):
    plant = random_plant(np.random.default_rng(11))
    estimate = mindyn.identify_servos(mindyn.load_robot(write_arm(tmp_path)), [record_servos(plant, 0)])
    known = estimate.has_scale
    assert known.tolist() == [False, True, True]
    assert_close(estimate.kp[known], plant.kp[known], 0.1)
    assert_close((estimate.kd / estimate.kp)[known], (plant.kd / plant.kp)[known], 0.1)


def test_a_load_on_a_sensor_has_its_weight():
    """Readings by the definition of weight, moment and force, with a bias."""
    R = rotations_from_quaternions(np.random.default_rng(4).normal(size=(14, 4)))
    weights = 1.3 * np.einsum("nji,j->ni", R, [0.0, 0.0, -9.81])
    bias = np.array([0.1, -0.2, 0.05, 2.0, -3.0, 5.0])
    readings = bias + np.column_stack([np.cross([0.02, -0.01, 0.09], weights), weights])
    readings += 1e-3 * np.random.default_rng(5).normal(size=readings.shape)
    payload = identify_payload_from_wrench(WrenchLog(readings, R))
    assert payload.load.mass == pytest.approx(1.3, rel=1e-2)
    assert_close(payload.load.centre, [0.02, -0.01, 0.09], 1e-2)


def test_every_log_of_a_fleet_counts(tmp_path):
    (tmp_path / "logs.toml").write_text(SIDECAR)
    for robot in range(2):
        for run in range(3):
            path = tmp_path / f"arm{robot}" / f"run{run}.parquet"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(log_bytes((robot, run)))
    study = study_fleet(ARM, f"{tmp_path}/{{robot}}/*.parquet", tmp_path / "out", settings=SETTINGS)
    assert [(member.key, member.logs) for member in study.robots] == [(("arm0",), 3), (("arm1",), 3)]
    assert (study.logs, study.type.logs, len(study.excluded)) == (6, 6, 0)


def test_a_sliding_joint_needs_the_printed_operations():
    """Lin's paper prints 11M 9A for the set of Gautier, and 8M 7A for its own, without m d and its sum with l_z."""
    lin, _, gautier, _ = slide_operations()
    assert (gautier.multiplications, gautier.additions) == (11, 9)
    assert (lin.multiplications, lin.additions) == (8 + 1, 7 + 1)
