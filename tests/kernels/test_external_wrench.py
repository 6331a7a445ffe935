"""The wrench at a link from joint torques: equal to the applied one, with its covariance and hidden directions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
from oracles.pinocchio_oracle import pinocchio_model
from raising import raises
from robots import random_robot

import mindyn
from mindyn.applications import ContactThresholds, contact_wrenches, find_contacts
from mindyn.applications.contact.detection import ContactTrace
from mindyn.foundation.errors import Code, InputError, UnknownNameError
from mindyn.robots.scale import length_unit

ARM = mindyn.load_robot("puma560")
MODEL = mindyn.compile_model(ARM)
LAST = ARM.link_names[-1]


def test_wrench_equals_the_one_that_pinocchio_applies():
    oracle = pinocchio_model(ARM)
    data, rng = oracle.createData(), np.random.default_rng(0)
    q, applied = rng.uniform(-2, 2, (20, 6)), rng.normal(size=(20, 6))
    tau = []
    for position, wrench in zip(q, applied, strict=True):
        J = pin.computeFrameJacobian(oracle, data, position, oracle.getFrameId(LAST), pin.ReferenceFrame.LOCAL)
        tau.append(J.T @ np.concatenate([wrench[3:], wrench[:3]]))
    estimate = MODEL.external_wrench(np.array(tau), q, LAST)
    seen = estimate.unobservable_count == 0
    assert seen.sum() >= 18
    assert np.abs(estimate.wrench - applied)[seen].max() < 1e-8
    both = MODEL.inverse_dynamics(q, 0 * q, 0 * q, tip_wrench=estimate.wrench) + np.array(tau)
    assert np.abs(both - MODEL.gravity(q))[seen].max() < 1e-8, "motors carry what the environment does not"


def test_covariance_equals_that_of_many_noisy_torques():
    rng, q, sigma = (
        np.random.default_rng(1),
        np.array([0.3, -0.8, 0.5, 0.4, 0.9, -0.2]),
        np.array([2, 1, 1, 0.3, 0.2, 0.1]),
    )
    noisy = sigma * rng.normal(size=(4000, 6))
    estimate = MODEL.external_wrench(noisy, np.tile(q, (4000, 1)), LAST, torque_deviations=sigma)
    sampled = np.cov(estimate.wrench.T)
    size = np.sqrt(np.outer(np.diag(sampled), np.diag(sampled)))
    assert np.abs((estimate.covariance[0] - sampled) / size).max() < 0.1
    assert np.allclose(estimate.deviations[0], np.sqrt(np.diag(estimate.covariance[0])))


def test_unobservable_directions_cause_no_torque_and_fill_the_rank():
    rng = np.random.default_rng(2)
    for seed in range(5):
        robot = random_robot(seed)
        model, q = mindyn.compile_model(robot), rng.uniform(-1, 1, robot.joint_count)
        link = robot.link_names[-1]
        estimate = model.external_wrench(rng.normal(size=robot.joint_count), q, link)
        J, R = model.geometric_jacobian(q, link), model.forward_kinematics(q, link)[:3, :3]
        units = np.array([length_unit(robot)] * 3 + [1.0] * 3)
        scaled = units[:, None] * np.vstack([R.T @ J[:3], R.T @ J[3:]])
        size = np.linalg.norm(scaled, 2)
        assert int(estimate.unobservable_count) == (np.linalg.svd(scaled, compute_uv=False) < 1e-3 * size).sum() + max(
            0, 6 - robot.joint_count
        )
        hidden = estimate.unobservable_directions()
        assert np.abs(hidden @ scaled).max(initial=0.0) <= 1e-3 * size
    wrist = MODEL.external_wrench(np.ones(6), np.array([0.3, -0.8, 0.5, 0.4, 0.0, -0.2]), LAST)
    assert int(wrist.unobservable_count) == 1, "axes 4 and 6 are in line"
    assert np.isinf(wrist.deviations).any()


def test_a_point_contact_needs_three_joints_and_has_no_moment():
    q = np.array([0.3, -0.8, 0.5, 0.4, 0.9, -0.2])
    force = np.array([3.0, -4.0, 5.0])
    J = MODEL.geometric_jacobian(q, "link4")
    R = MODEL.forward_kinematics(q, "link4")[:3, :3]
    estimate = MODEL.external_wrench(J[3:].T @ R @ force, q, "link4", contact="point")
    unrestricted = MODEL.external_wrench(J[3:].T @ R @ force, q, "link4")
    assert int(unrestricted.unobservable_count) == 2
    assert int(estimate.unobservable_count) == 0
    assert np.abs(estimate.wrench - [0, 0, 0, *force]).max() < 1e-9


def test_each_contact_has_the_wrench_at_its_largest_residual_and_friction_at_rest_widens_it():
    rng, rows = np.random.default_rng(3), 40
    q, qd = np.tile([0.3, -0.8, 0.5, 0.4, 0.9, -0.2], (rows, 1)), np.full((rows, 6), 0.5)
    applied = np.array([0.5, -1.0, 2.0, 30.0, -20.0, 10.0])
    J, R = MODEL.geometric_jacobian(q[0], LAST), MODEL.forward_kinematics(q[0], LAST)[:3, :3]
    tau = J.T @ np.concatenate([R @ applied[:3], R @ applied[3:]])
    deviations = np.array([0.5, 0.5, 0.3, 0.05, 0.05, 0.05])
    shape = np.concatenate([np.linspace(0, 1, 20), np.linspace(1, 0, 20)])[:, None]
    residual = shape * tau + 0.01 * deviations * rng.normal(size=(rows, 6))
    limits = ContactThresholds(ARM.joint_names, 4 * deviations, np.full(6, 3.0), deviations=deviations)
    time = np.arange(rows) / 100
    trace = ContactTrace(ARM.joint_names, time, residual, -4 * deviations + 0 * q, 4 * deviations + 0 * q, q, qd)
    contacts = find_contacts(trace, ARM)
    ((when, result),) = contact_wrenches(trace, contacts, limits, MODEL, LAST)
    assert abs(when - 0.195) < 0.02
    assert (np.abs(result.wrench - applied) < 0.2 * result.deviations).all()
    still = replace(trace, qd=0 * qd)
    ((_, at_rest),) = contact_wrenches(still, contacts, limits, MODEL, LAST)
    assert (at_rest.deviations > result.deviations).all()
    with raises(InputError, Code.MISSING_VALUE, "thresholds"):
        contact_wrenches(trace, contacts, replace(limits, deviations=None), MODEL)


def test_bad_input_is_named():
    with raises(InputError, Code.WRONG_SHAPE, "tau_ext"):
        MODEL.external_wrench(np.zeros(5), np.zeros(6), LAST)
    with raises(InputError, Code.NOT_FINITE, "tau_ext"):
        MODEL.external_wrench(np.full(6, np.nan), np.zeros(6), LAST)
    with raises(InputError, Code.NOT_FINITE, "tau_ext"):
        MODEL.external_wrench(np.zeros(6), np.zeros(6), LAST, torque_deviations=0.0)
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "wrist"):
        MODEL.external_wrench(np.zeros(6), np.zeros(6), "wrist")
    with raises(InputError, Code.UNKNOWN_NAME):
        MODEL.external_wrench(np.zeros(6), np.zeros(6), LAST, contact="edge")
