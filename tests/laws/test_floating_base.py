"""A floating base is six joints: torques, base sets and identification equal those of a free flyer."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from floating_robots import FEET, RATE_HZ, biped_urdf, load_biped, random_free_motion
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError, RobotError
from mindyn.regression import differentiate_free_flyer, floating_rows, floating_samples
from mindyn.regression.contact_phases import joint_torques_of_wrench
from mindyn.robots import body_coordinates, from_free_flyer, to_free_flyer
from mindyn.robots.toml_format import robot_from_table, toml_table

STATED = mindyn.EquationSettings(drive_parameters="stated")
PUBLISHED = (
    ("solo_description/robots/solo12.urdf", 94),
    ("anymal_b_simple_description/robots/anymal.urdf", 94),
    ("talos_data/robots/talos_reduced.urdf", None),
)


@pytest.fixture(scope="module")
def biped(tmp_path_factory):
    return load_biped(tmp_path_factory.mktemp("biped"))


@pytest.fixture(scope="module")
def motion(biped):
    return random_free_motion(biped, 300, 1)


@pytest.fixture(scope="module")
def model(biped):
    return mindyn.compile_model(biped)


def pinocchio_states(robot, flyer, count, seed):
    """Return random states of Pinocchio's model, and the same in the order of the robot's joints."""
    rng, states = np.random.default_rng(seed), []
    joints = [flyer.joints[flyer.getJointId(name)] for name in robot.joint_names[6:]]
    order = [*range(6), *(joint.idx_v for joint in joints)]
    for _ in range(count):
        q, angles = pin.neutral(flyer), rng.uniform(-1.5, 1.5, len(joints))
        q[:3], q[3:7] = rng.normal(size=3), rng.normal(size=4)
        q[3:7] /= np.linalg.norm(q[3:7])
        for joint, angle in zip(joints, angles, strict=True):
            q[joint.idx_q : joint.idx_q + joint.nq] = angle if joint.nq == 1 else (np.cos(angle), np.sin(angle))
        v, a = rng.normal(size=(2, flyer.nv))
        states.append(((q, v, a), (np.concatenate([q[:7], angles]), v[order], a[order]), order))
    return states


def in_pinocchio_order(tau):
    """Force, then moments about x, y, z."""
    return np.concatenate([tau[..., :3], tau[..., [5, 4, 3]], tau[..., 6:]], axis=-1)


def compare_torques(robot, flyer, count):
    data, model = flyer.createData(), mindyn.compile_model(robot)
    for (q, v, a), separate, order in pinocchio_states(robot, flyer, count, 0):
        expected = pin.rnea(flyer, data, q, v, a)[order]
        size = 1e-9 * max(1.0, np.abs(expected).max())
        assert (
            np.abs(in_pinocchio_order(model.inverse_dynamics(*body_coordinates(robot, *separate))) - expected).max()
            < size
        )
        by_angles = model.inverse_dynamics(*from_free_flyer(robot, *separate))
        assert np.abs(by_angles[6:] - expected[6:]).max() < size


def sampled_rank(robot, flyer, count):
    """Rank of Pinocchio's regressor, with columns of unit length."""
    data = flyer.createData()
    rows = [pin.computeJointTorqueRegressor(flyer, data, *state).copy() for state, _, _ in
            pinocchio_states(robot, flyer, count, 2)]  # fmt: skip
    Y = np.vstack(rows)
    length = np.linalg.norm(Y, axis=0)
    s = np.linalg.svd(Y[:, length > 0] / length[length > 0], compute_uv=False)
    return int((s > 1e-10 * s[0]).sum()), s


def test_torques_and_base_set_of_a_biped_equal_those_of_pinocchio(biped):
    flyer = pin.buildModelFromXML(biped_urdf(), pin.JointModelFreeFlyer())
    compare_torques(biped, flyer, 20)
    base = mindyn.base_parameters(biped)
    assert base.count == sampled_rank(biped, flyer, 60)[0] == 38
    assert base.notes == ()
    assert not base.matrix[:, :50].any(), "massless links have no parameters"


@pytest.mark.parametrize(("file", "count"), PUBLISHED)
def test_torques_and_base_sets_of_published_robots_equal_those_of_pinocchio(file, count):
    try:
        installed = metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    path = Path(str(installed.locate_file("cmeel.prefix/share/example-robot-data/robots"))) / file
    robot = mindyn.load_robot(path, root_joint="floating", snap=False)
    flyer = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    rank, s = sampled_rank(robot, flyer, 4 * robot.joint_count)
    assert mindyn.base_parameters(robot).count == (count or rank) == rank
    assert s[rank - 1] > 1e3 * (s[rank] if rank < len(s) else 0.0)
    compare_torques(robot, flyer, 3)


def test_rows_hold_at_the_singular_attitude_where_angles_have_no_rates(biped, model):
    flyer = pin.buildModelFromXML(biped_urdf(), pin.JointModelFreeFlyer())
    half, rng = np.sqrt(0.5), np.random.default_rng(3)
    for quaternion in ((0, half, 0, half), (half, 0, -half, 0), (0, 1, 0, 0)):
        q = np.array([0.3, -1.0, 2.0, *quaternion, *rng.uniform(-1, 1, 4)])
        v, a = rng.normal(size=(2, 10))
        order = [flyer.joints[flyer.getJointId(name)].idx_v for name in biped.joint_names[6:]]
        state = q.copy()
        state[np.array(order) + 1] = q[7:]
        rates = [np.concatenate([x[:6], np.zeros(4)]) for x in (v, a)]
        for x, given in zip(rates, (v, a), strict=True):
            x[order] = given[6:]
        expected = pin.rnea(flyer, flyer.createData(), state, *rates)
        result = in_pinocchio_order(model.inverse_dynamics(*body_coordinates(biped, q, v, a)))
        assert np.abs(result - np.concatenate([expected[:6], expected[order]])).max() < 1e-9
    with raises(InputError, Code.OUT_OF_RANGE, "q"):
        from_free_flyer(biped, [0, 0, 0, 0, half, 0, half, *[0.0] * 4], np.ones(10))


def test_conversions_are_inverse_and_follow_the_motion_in_time(biped, motion):
    q, v, a = motion
    back = to_free_flyer(biped, *from_free_flyer(biped, q, v, a))
    back[0][:, 3:7] *= np.sign((back[0][:, 3:7] * q[:, 3:7]).sum(axis=1, keepdims=True))
    for result, given in zip(back, motion, strict=True):
        assert np.abs(result - given).max() < 1e-9
    flipped = q.copy()
    flipped[150:, 3:7] *= -1
    _, twist, rates = differentiate_free_flyer(biped, flipped, RATE_HZ)
    inner = slice(3, -3)
    assert np.abs(twist - v)[inner].max() < 0.02 * np.abs(v).max()
    assert np.abs(rates - a)[inner].max() < 0.02 * np.abs(a).max()


def test_forward_dynamics_equals_that_of_the_free_flyer(biped, model, motion):
    q, v, a = motion
    B = body_coordinates(biped, q[::50], v[::50], a[::50])
    tau = np.hstack([np.zeros((len(B[0]), 6)), np.random.default_rng(0).normal(size=(len(B[0]), 4))])
    flyer = pin.buildModelFromXML(biped_urdf(), pin.JointModelFreeFlyer())
    order = [flyer.joints[flyer.getJointId(name)].idx_v for name in biped.joint_names[6:]]
    qdd = model.forward_dynamics(B[0], B[1], tau)
    for k, row in enumerate(range(0, len(q), 50)):
        state, speed, torque = q[row].copy(), v[row].copy(), np.zeros(10)
        state[np.array(order) + 1], speed[order], torque[order] = q[row, 7:], v[row, 6:], tau[k, 6:]
        expected = pin.aba(flyer, flyer.createData(), state, speed, torque)
        assert np.abs(qdd[k, 6:] - expected[order]).max() < 1e-9 * np.abs(expected).max()


def test_simulated_flight_keeps_the_path_of_the_centre_of_mass_and_the_angular_momentum(biped):
    flyer = pin.buildModelFromXML(biped_urdf(), pin.JointModelFreeFlyer())
    data = flyer.createData()
    order = np.array([flyer.joints[flyer.getJointId(name)].idx_v for name in biped.joint_names[6:]])
    q0, qd0 = np.array([0, 0, 1, 0.3, -0.2, 0.4, 0.1, 0.2, -0.1, 0.3]), np.array([0.5, 0, 2, 1, -2, 1, 0, 0, 0, 0])
    push = lambda t, q, qd: np.array([0.0] * 6 + [np.sin(9 * t), -1, 0.5, np.cos(7 * t)])  # noqa: ARG005, E731
    flown = mindyn.simulate(biped, push, seconds=0.4, q0=q0, qd0=qd0, rate_hz=200.0)
    q, v, _ = to_free_flyer(biped, flown.q, flown.qd)
    centres, momenta = [], []
    for position, speed in zip(q, v, strict=True):
        state, rate = position.copy(), speed.copy()
        state[order + 1], rate[order] = position[7:], speed[6:]
        momentum = pin.computeCentroidalMomentum(flyer, data, state, rate)
        centres.append(data.com[0].copy())
        momenta.append(momentum.angular.copy())
    t = flown.t[:, None]
    start = momentum_start(flyer, q[0], v[0], order)
    assert np.abs(np.array(centres) - (centres[0] + start * t + 0.5 * biped.gravity * t**2)).max() < 1e-6
    assert np.abs(np.array(momenta) - momenta[0]).max() < 1e-6


def momentum_start(flyer, q, v, order):
    """Velocity of the centre of mass at the start."""
    state, rate, data = q.copy(), v.copy(), flyer.createData()
    state[order + 1], rate[order] = q[7:], v[6:]
    pin.centerOfMass(flyer, data, state, rate)
    return data.vcom[0].copy()


def contact_case(model, biped, motion):
    """Return the torques of a motion, forces at the feet, and the wrench that a handle on the trunk then exerts."""
    B = body_coordinates(biped, *motion)
    tau = model.inverse_dynamics(*B)
    forces = np.random.default_rng(4).normal(scale=20, size=(2, len(tau), 3))
    wrenches = {foot: np.hstack([np.zeros_like(f), f]) for foot, f in zip(FEET, forces, strict=True)}
    for foot, wrench in wrenches.items():
        tau = tau - joint_torques_of_wrench(model, B[0], foot, wrench)
    trunk = tau[:, [5, 4, 3, 0, 1, 2]]
    return tau[:, 6:], wrenches, trunk


def test_measured_wrenches_unknown_contacts_and_a_held_trunk_give_the_values_of_the_robot(biped, model, motion):
    values = mindyn.base_parameters(biped).values
    tau, wrenches, trunk = contact_case(model, biped, motion)
    measured = floating_samples(biped, *motion, tau, rate_hz=RATE_HZ, wrenches={**wrenches, "trunk": trunk})
    estimate = mindyn.LeastSquares().fit(floating_rows(biped, [(measured, ())], STATED))
    assert np.abs(estimate.beta - values).max() < 1e-10

    unknown = floating_samples(biped, *motion, tau, rate_hz=RATE_HZ, wrenches={"trunk": trunk})
    for settings in (STATED, replace(STATED, equations_hz=20.0)):
        rows = floating_rows(biped, [(unknown, FEET)], settings)
        R, z = rows.information.stacked()
        assert np.abs(R @ values - z).max() < 1e-9 * np.abs(z).max(), "projected rows hold for the true values"
        s = np.linalg.svd(R / np.linalg.norm(R, axis=0), compute_uv=False)
        assert (s < 1e-9 * s[0]).sum() == 2, "forces at the feet hide a point mass at each foot"
    wrong = floating_rows(biped, [(unknown, ())], STATED).information.stacked()
    assert np.abs(wrong[0] @ values - wrong[1]).max() > 1.0, "without the projection, the forces are in the rows"

    held = floating_samples(biped, *motion, tau_of_held(biped, model, motion), rate_hz=RATE_HZ, trunk_held=True)
    estimate = mindyn.LeastSquares().fit(floating_rows(biped, [(held, ())], STATED))
    assert {name[-2:] for name in estimate.values.unidentifiable} == {"6R"}, "all ten of the trunk, and nothing else"
    known = ~np.isin(estimate.names, estimate.values.unidentifiable)
    assert known.sum() == 28
    assert np.abs(estimate.beta - values)[known].max() < 1e-10

    together = mindyn.LeastSquares().fit(floating_rows(biped, [(held, ()), (unknown, FEET), (measured, ())], STATED))
    assert np.abs(together.beta - values).max() < 1e-10
    with raises(InputError, Code.NOT_IDENTIFIABLE):
        floating_rows(biped, [(unknown, FEET)], STATED, contact="surface")
    with raises(InputError, Code.UNSUPPORTED, "phases"):
        floating_rows(biped, [(held, FEET)], STATED)


def tau_of_held(biped, model, motion):
    return model.inverse_dynamics(*body_coordinates(biped, *motion))[:, 6:]


def flight(biped, model, motion, noise=0.0):
    """Return samples in flight: accelerations are those without a wrench on the trunk."""
    q, qd, _ = body_coordinates(biped, *motion)
    t, rng = np.arange(len(q))[:, None] / RATE_HZ, np.random.default_rng(5)
    tau = np.hstack([np.zeros((len(q), 6)), 5 * np.sin(t * rng.uniform(3, 9, 4))])
    qdd = model.forward_dynamics(q, qd, tau)
    qdd = qdd + noise * rng.normal(size=qdd.shape)
    return mindyn.Samples(biped.joint_names, q, qd, qdd, tau, RATE_HZ, np.zeros(len(q), int))


def test_zero_wrench_in_flight_counts_as_measured(biped, model, motion):
    values = mindyn.base_parameters(biped).values
    exact = mindyn.LeastSquares().fit(floating_rows(biped, [(flight(biped, model, motion), ())], STATED))
    assert exact.values.unidentifiable == ()
    assert np.abs(exact.beta - values).max() < 1e-9
    noisy = mindyn.LeastSquares().fit(floating_rows(biped, [(flight(biped, model, motion, 0.05), ())], STATED))
    assert (noisy.data.joint_weights[:6] > 0).all()
    consistent = mindyn.PhysicallyConsistent().fit(floating_rows(biped, [(flight(biped, model, motion), ())], STATED))
    full = mindyn.build_full_model(consistent)
    assert full.has_floating_base
    assert np.abs(mindyn.base_parameters(full).values - values).max() < 1e-6
    estimated = floating_rows(biped, [(flight(biped, model, motion), ())])
    driven = [drive.joint for drive in estimated.robot.drives]
    assert driven == list(biped.joint_names[6:]), "no friction at the joints of the base"


def test_floating_robots_keep_their_parts(biped, tmp_path):
    assert robot_from_table(toml_table(biped)) == biped
    assert biped.root.name == "world"
    fixed = mindyn.load_robot("puma560")
    assert not fixed.has_floating_base
    assert mindyn.base_parameters(fixed).count == 36
    mounted = mindyn.load_robot(write(tmp_path, biped_urdf()), root_joint="floating", mount="ceiling")
    assert mounted.gravity[2] > 9
    assert mindyn.load_robot(tmp_path / "b.urdf", root_joint="floating", lock={"left_knee": 0.3}).joint_count == 9
    named = biped_urdf().replace('"trunk"', '"world"')
    assert mindyn.load_robot(write(tmp_path, named), root_joint="floating").root.name == "world_"


def write(folder, text):
    (folder / "b.urdf").write_text(text)
    return folder / "b.urdf"


def test_loops_and_mimics_on_a_floating_base_have_no_parameters_of_massless_links(tmp_path):
    mimic = biped_urdf().replace(
        '<joint name="right_knee" type="revolute">',
        '<joint name="right_knee" type="revolute"><mimic joint="left_knee"/>',
    )
    robot = mindyn.load_robot(write(tmp_path, mimic), root_joint="floating")
    base = mindyn.base_parameters(robot)
    assert base.form == "numeric"
    assert not base.matrix[:, :50].any()
    assert base.count <= 38


def test_bad_input_is_named(biped, motion, tmp_path):
    q, v, a = motion
    with raises(InputError, Code.UNKNOWN_NAME):
        mindyn.load_robot("puma560", root_joint="flying")
    with raises(InputError, Code.UNSUPPORTED, "puma560"):
        body_coordinates(mindyn.load_robot("puma560"), np.zeros(7))
    with raises(InputError, Code.WRONG_SHAPE, "q"):
        body_coordinates(biped, q[:, :-1], v, a)
    with raises(InputError, Code.WRONG_SHAPE, "v"):
        to_free_flyer(biped, np.zeros((5, 10)), np.zeros((4, 10)))
    with raises(InputError, Code.INVALID_VALUE, "quaternion"):
        body_coordinates(biped, np.zeros(11))
    with raises(InputError, Code.WRONG_SHAPE, "tau"):
        floating_samples(biped, q, v, a, np.zeros((len(q), 10)), rate_hz=RATE_HZ)
    with raises(InputError, Code.WRONG_SHAPE, "left_foot"):
        floating_samples(biped, q, v, a, np.zeros((len(q), 4)), rate_hz=RATE_HZ, wrenches={"left_foot": np.zeros(6)})
    with raises(InputError, Code.TOO_LITTLE_DATA, "phases"):
        floating_rows(biped, [])
    with raises(RobotError, Code.DUPLICATE):
        mindyn.load_robot(write_toml(biped, tmp_path), root_joint="floating")


def write_toml(robot, folder):
    mindyn.write_toml(robot, folder / "biped.toml")
    return folder / "biped.toml"
