"""Robots with parallelograms are simulated in their primary joints, as the pins of the whole tree make them move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program
from closeness import ORACLE, SAME_ALGEBRA, assert_close, assert_negligible
from identifiability.loop_oracle import LoopOracle
from raising import raises
from scipy.integrate import solve_ivp
from simulation.plants import CONSERVED, INTEGRATED, WEAK, constant, nothing, swinging

import mindyn
from mindyn.cli.simulate_command import write_measurement
from mindyn.equations.loop_closure import affine_closure, primary_friction, primary_gears
from mindyn.foundation.errors import Code, MissingPhysicsError
from mindyn.motions.simulation.controllers import ComputedTorque, SineMotion
from mindyn.motions.simulation.rollouts import roll_out
from mindyn.motions.simulation.sensors import Sensors
from mindyn.motions.simulation.simulate import simulate
from mindyn.robots.drive_matrices import drive_parameters, gear_matrix
from mindyn.robots.parts import Drive

PARALLELOGRAMS = ["parallelogram_planar", "parallelogram_scara", "semi_direct_drive", "palletiser", "parallelogram_arm"]
GRAVITY = (2.0, 1.0, -9.0)
CONSTRAINED = 1e-8
"""Against a solver of constraints that iterates."""


def driven(name: str, **dependent: float) -> mindyn.Robot:
    """With drives on the primary joints, and Coulomb friction of them, or of the dependent ones that are named."""
    robot = mindyn.load_robot(name, gravity=WEAK)
    drives = [
        Drive(name, 30.0 + 5 * k, rotor_inertia=2e-4, viscous=0.5, coulomb=0.0 if dependent else 2.0 + k, side="joint")
        for k, name in enumerate(robot.primary_names)
    ]
    drives += [Drive(item, coulomb=level, side="joint") for item, level in dependent.items()]
    return replace(robot, drives=tuple(drives))


def whole(robot, p):
    """(N, n) positions of all joints."""
    affine = affine_closure(robot)
    return p @ affine.matrix.T + affine.offset


@pytest.mark.parametrize("name", PARALLELOGRAMS)
def test_energy_is_conserved_without_friction(name):
    robot = mindyn.load_robot(name, gravity=GRAVITY)
    start = np.full(robot.joint_count, 0.3)
    motion = simulate(robot, nothing, seconds=3, q0=start, rate_hz=50)
    assert motion.joint_names == robot.primary_names
    energy = mindyn.compile_model(robot).energy(motion.q, motion.qd)
    assert np.ptp(energy[:, 0]) > 1.0
    assert_negligible(np.ptp(energy.sum(axis=1)), np.abs(energy).max(), CONSERVED)


@pytest.mark.parametrize("name", ["parallelogram_planar", "semi_direct_drive"])
def test_motions_are_those_of_pinocchio_with_pins(name):
    robot = mindyn.load_robot(name, gravity=GRAVITY)
    oracle, n = LoopOracle(robot), robot.joint_count
    tau, start = np.linspace(5, 12, n), np.linspace(0.3, -0.2, n)

    def slope(_t, y):
        return np.concatenate([y[n:], oracle.forward_dynamics(whole(robot, y[:n]), y[n:], tau)])

    motion = simulate(robot, constant(tau), seconds=0.3, q0=start)
    y = solve_ivp(slope, (0, 0.3), np.concatenate([start, np.zeros(n)]), "DOP853", rtol=1e-10, atol=1e-11).y[:, -1]
    assert_close(np.concatenate([motion.q[-1], motion.qd[-1]]), y, INTEGRATED)


@pytest.mark.parametrize(
    "robot",
    [
        pytest.param(driven("palletiser"), id="friction of primary joints"),
        pytest.param(driven("palletiser", joint3=3.0), id="friction of a dependent joint"),
        pytest.param(driven("palletiser", joint3=1.0, joint_rod=2.0), id="friction of joints in step"),
    ],
)
def test_friction_sticks_and_slips_through_the_pins(robot):
    n = robot.joint_count
    push = swinging(np.array([6.0, 8.0, 9.0, 12.0]), 6.0)
    motion = simulate(robot, push, seconds=1.5, q0=np.linspace(0.2, -0.2, n), with_drives=True, rate_hz=200)
    assert motion.stuck.any() and not motion.stuck.all() and motion.events > 3  # noqa: PT018 - one premise
    levels = drive_parameters(robot)[2::4]
    F, levels = primary_friction(robot)[levels > 0], levels[levels > 0]
    speeds = motion.qd @ F.T
    slipping = (np.abs(speeds) > 1e-9).all(axis=1)
    expected = (np.sign(speeds) * levels) @ F
    assert_close(motion.friction[slipping], expected[slipping], SAME_ALGEBRA)
    assert (np.abs(motion.friction) <= np.abs(F).T @ levels * (1 + 1e-8)).all()
    oracle = LoopOracle(robot)
    drives = [drive for drive in robot.drives if drive.joint in robot.primary_names]
    rotor = np.diag([drive.ratio**2 * drive.rotor_inertia for drive in drives])
    viscous = np.array([drive.viscous for drive in drives])
    for k in range(0, len(motion.t), 25):
        tau = motion.tau[k] - motion.friction[k] - viscous * motion.qd[k] - rotor @ motion.qdd[k]
        result = oracle.forward_dynamics(whole(robot, motion.q[k]), motion.qd[k], tau)
        assert_negligible(result - motion.qdd[k], np.abs(motion.qdd).max(), CONSTRAINED)


def test_primary_and_passive_joints_of_a_parallelogram_share_what_they_hold():
    """Which friction takes how much is not determined; what they take together is."""
    robot = driven("palletiser")
    robot = replace(robot, drives=(*robot.drives, Drive("joint3", coulomb=1.0)))
    push = swinging(np.array([6.0, 8.0, 9.0, 12.0]), 6.0)
    start = {"seconds": 1.0, "q0": np.linspace(0.2, -0.2, 4), "with_drives": True, "rate_hz": 200}
    motion = simulate(robot, push, **start)
    assert motion.stuck.any()
    fixed = simulate(robot, push, **start, method="fixed", longest_step_s=1e-4)
    assert_negligible(fixed.q - motion.q, np.abs(motion.q).max(), 1e-4)


def test_rollouts_end_where_fixed_steps_end():
    robot = driven("semi_direct_drive")
    q0 = np.array([0.1, 0.2, -0.1])
    tau = np.array([5.0, 30.0, 10.0])
    motion = simulate(
        robot, constant(tau), seconds=0.1, q0=q0, with_drives=True, method="fixed", longest_step_s=1e-3, rate_hz=1000
    )
    many = roll_out(robot, np.tile(q0, (5, 1)), np.zeros(3), tau, dt=1e-3, steps=100, with_drives=True)
    assert_close(many.q[3], motion.q, ORACLE)


def test_sensors_read_the_motors_of_primary_joints():
    """A motor that a dependent joint turns as well counts that joint's turns."""
    robot = driven("semi_direct_drive")
    drives = (*robot.drives[:2], replace(robot.drives[2], coupling={"joint3": 4.0}), Drive("joint3", 7.0))
    robot = replace(robot, drives=drives)
    reference = SineMotion(np.zeros(3), np.full(3, 0.4), np.array([0.5, 0.7, 0.9]), np.zeros(3))
    controller = ComputedTorque(robot, reference, 100.0, 20.0, with_drives=True)
    sensors = Sensors(rate_hz=1000, position_side="motor", torque_side="motor")
    motion = simulate(robot, controller, seconds=0.3, q0=np.zeros(3), with_drives=True, sensors=sensors)
    read = motion.measured
    assert read.joint_names == robot.primary_names
    motors = (whole(robot, motion.q) @ gear_matrix(robot).T)[:, [0, 1, 3]]  # drives are in the order of the joints
    assert_close(read.position, motors, SAME_ALGEBRA)
    work = (read.torque * np.gradient(motors, motion.t, axis=0)).sum()
    assert_close(work, (motion.tau * np.gradient(motion.q, motion.t, axis=0)).sum(), SAME_ALGEBRA)
    assert primary_gears(robot)[2, 1] != 0
    with raises(MissingPhysicsError, code=Code.MISSING_VALUE, subject="joint_crank"):
        simulate(replace(robot, drives=drives[:2]), nothing, seconds=0.01, q0=np.zeros(3), sensors=sensors)


def test_a_simulated_log_identifies_the_parallelogram(tmp_path):
    """The log of a driven arm, taken back by identification, gives its base parameters."""
    truth = driven("semi_direct_drive")
    mindyn.write_toml(truth, tmp_path / "arm.toml")
    logs = [tmp_path / f"run{seed}.parquet" for seed in (1, 2)]
    robot = mindyn.load_robot(tmp_path / "arm.toml")
    for seed, log in enumerate(logs, 1):
        frequency = 0.15 + 0.25 * np.random.default_rng(seed).random(3)
        reference = SineMotion(np.zeros(3), np.full(3, 0.5), frequency, np.zeros(3))
        controller = ComputedTorque(robot, reference, 100.0, 20.0, with_drives=True)
        sensors = Sensors(rate_hz=200.0, torque_noise=1e-4, noise_side="motor", seed=seed)
        motion = simulate(robot, controller, seconds=12, q0=np.zeros(3), with_drives=True, sensors=sensors)
        write_measurement(motion.measured, robot, log)
    unknown = replace(
        robot,
        links=tuple(replace(link, phi=None) for link in robot.links),
        drives=tuple(Drive(drive.joint, drive.ratio, side=drive.side) for drive in robot.drives),
    )
    read = [mindyn.read_log(log, unknown) for log in logs]
    fit = mindyn.identify(unknown, read)
    base = mindyn.base_parameters(robot, with_drives=True)
    assert fit.regressor.base.names == base.names
    assert_close(fit.base_values, base.values, 0.005)


def test_a_robot_with_loops_needs_a_motion(tmp_path):
    ended = mindyn_program("simulate", "palletiser", "--out", tmp_path / "run.csv")
    assert ended.code == 1
    assert "mindyn excite palletiser --out motion" in ended.err
