"""Start values, bounds and null space for mujoco.sysid agree with the full model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import DERIVATIVE, ORACLE, assert_close, assert_negligible
from raising import raises

import mindyn
from mindyn.errors import Code, InputError
from mindyn.export.mujoco_sysid import mujoco_torques, phi_from_theta, sysid_start, theta_from_phi
from mindyn.robots.parts import Drive

sysid = pytest.importorskip("mujoco.sysid", reason="no MuJoCo on this machine")
pytestmark = pytest.mark.skipif(not hasattr(sysid, "ParameterDict"), reason="mujoco.sysid lacks its dependencies")


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    robot, rng = mindyn.load_robot("panda"), np.random.default_rng(1)
    drives = tuple(Drive(name, 50.0, {}, 1e-4, 0.4, 0.3, 0.0, "joint") for name in robot.joint_names)
    arm = replace(robot, drives=drives)
    q, qd, qdd = rng.uniform(-1.5, 1.5, (3, 600, 7))
    tau = mindyn.compile_model(arm, drives=True).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.01, q.shape)
    samples = mindyn.Samples(arm.joint_names, q, qd, qdd, tau, 100.0, np.zeros(len(q), int))
    estimate = mindyn.LeastSquares().fit(mindyn.build_rows(arm, samples, mindyn.EquationSettings(drives="stated")))
    folder = tmp_path_factory.mktemp("sysid")
    sysid = sysid_start(estimate)
    mindyn.write_mjcf(robot, folder / "file.xml", force=True)
    return sysid, folder, (q[:10], 3 * qd[:10], qdd[:10])


def torques(start, folder, motion, vector=None):
    """Return MuJoCo's inverse dynamics with the parameters written into the file as mujoco.sysid does."""
    import mujoco

    parameters = start.parameters.copy()
    if vector is not None:
        parameters.update_from_vector(vector)
    spec = mujoco.MjSpec.from_file(str(folder / "file.xml"))
    sysid.apply_param_modifiers_spec(parameters, spec)
    for joint in spec.joints:
        joint.frictionloss = 0.0  # regularised
    spec.compile()
    (folder / "written.xml").write_text(spec.to_xml())
    return mujoco_torques(start.robot, folder / "written.xml", *motion)


def test_start_values_give_the_torques_of_the_full_model(start):
    sysid, folder, motion = start
    still = replace(sysid.robot, drives=tuple(replace(drive, coulomb=0.0, offset=0.0) for drive in sysid.robot.drives))
    expected = mindyn.compile_model(still, drives=True).inverse_dynamics(*motion)
    assert_close(torques(sysid, folder, motion), expected, DERIVATIVE)  # to_xml writes six digits or so


def test_start_values_are_named_and_within_their_bounds(start):
    sysid, *_ = start
    low, high = sysid.parameters.get_bounds()
    x = sysid.parameters.as_vector()
    assert (low <= x).all()
    assert (x < high).all()
    assert len(sysid.names) == len(x) == sysid.parameters.size == 7 * 10 + 7 * 3


def test_torques_change_only_outside_the_null_space(start):
    """Check to first order by central differences of the kernels."""
    sysid, _, (q, qd, qdd) = start
    model = mindyn.compile_model(sysid.robot, parameters="input")
    x = sysid.parameters.as_vector()[:70]

    def tau(links):
        phi = np.concatenate([phi_from_theta(theta) for theta in links.reshape(7, 10)])
        return model.inverse_dynamics(q, qd, qdd, phi)

    assert sysid.null_space.shape[0] == len(sysid.names)
    count = sysid.null_space.shape[1]
    base = mindyn.base_parameters(sysid.robot, drives=True)
    assert count == len(sysid.names) - (base.count - 7)  # MuJoCo has no torque offsets
    assert_close(sysid.null_space.T @ sysid.null_space, np.eye(count), ORACLE)
    scale = np.abs(tau(x)).max()
    for direction in sysid.null_space[:70].T[:6]:
        step = 1e-5 * direction
        moved = tau(x + step) - tau(x - step)
        # What armature takes over from links does not show in torques of the links alone.
        merged = sysid.null_space[70:, np.flatnonzero((direction == sysid.null_space[:70].T).all(1))[0]].reshape(7, 3)
        moved += 2e-5 * merged[:, 0] * qdd
        assert_negligible(moved, scale * 1e-5, 1e-4)
    assert np.abs(tau(x + 1e-5) - tau(x - 1e-5)).max() > 1e-7 * scale


def test_theta_is_invertible_and_rejects_boundary_links():
    for link in mindyn.load_robot("panda").links:
        assert_close(phi_from_theta(theta_from_phi(link.phi)), link.phi, ORACLE)
    with raises(InputError, Code.NOT_FEASIBLE, "phi"):
        theta_from_phi(np.array([1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0]))
