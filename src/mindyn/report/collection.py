"""Collect `ReportData` from an estimate and its logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.loop_closure import home_closure
from mindyn.estimators.estimate import Estimate
from mindyn.export.writing import choose_format
from mindyn.identification.diagnostics.diagnose import explain
from mindyn.identification.diagnostics.residual_patterns import find_patterns
from mindyn.kernels.skeleton import SkeletonData, compute_skeleton
from mindyn.report.data import DEFAULT_ESTIMATE_NAME, JointData, ReportData
from mindyn.report.inputs import ReportInputs
from mindyn.report.log_views import (
    LogView,
    pack_motion,
    pack_traces,
    summarize_excitation,
    summarize_residuals,
    view_logs,
)
from mindyn.report.provenance import collect_provenance
from mindyn.report.results import comparison_data, friction_data, parameter_rows, verdict_data
from mindyn.robots.meshes import Meshes
from mindyn.robots.robot import Robot
from mindyn.validation.prediction import predict_log
from mindyn.validation.validate import prior_estimate, validate, validate_fit

MAX_DRAWN_POSES: Final = 200
"""Poses of the drawn robot along a log, at most."""


def collect_report_data(inputs: ReportInputs) -> ReportData:
    """Collect everything that a report shows."""
    estimate = inputs.estimate
    logs = inputs.validation_logs
    verdict = inputs.validation or (validate(estimate, logs) if logs else validate_fit(estimate))
    held_out = view_logs(logs, "held out", verdict.predictions)
    fitted = [predict_log(estimate, log) for log in inputs.training_logs]
    evidence = [*held_out, *view_logs(inputs.training_logs, "training", fitted)]
    prior = prior_estimate(estimate, inputs.prior)
    moved = summarize_excitation(estimate, evidence)
    name, same_joints = str(inputs.run.get("name") or DEFAULT_ESTIMATE_NAME), _select_same_joints(inputs)
    return ReportData(
        robot=estimate.robot.name,
        estimator=estimate.method,
        status=estimate.status,
        constrained=estimate.constrained,
        physical_intervals=estimate.physical is not None and estimate.physical.ends is not None,
        joints=_joint_data(estimate),
        verdict=verdict_data(
            verdict,
            held_out=bool(held_out),
            earlier=inputs.run.get("validation"),
            patterns=find_patterns([view.prediction for view in held_out or evidence]) if evidence else None,
            consistent_nearby=any(answer.within_uncertainty for answer in inputs.feasibility),
            findings=explain((*estimate.robot.findings, *estimate.findings, *inputs.findings)),
        ),
        traces=pack_traces(evidence),
        parameters=parameter_rows(estimate, prior),
        excitation=moved,
        friction=friction_data(estimate, prior, moved, evidence),
        residual_role="held out" if held_out else "training",
        residuals=summarize_residuals(held_out or evidence),
        feasibility=tuple(answer.to_dict() for answer in inputs.feasibility),
        motion=pack_motion(inputs.motion),
        comparison=comparison_data(name, estimate, verdict.error, same_joints, prior, inputs.validation_logs),
        skeleton=draw_skeleton(estimate.robot, evidence, inputs.meshes),
        provenance=collect_provenance(inputs),
        others=tuple((name, parameter_rows(other, None)) for name, other in inputs.comparison.items()),
        robot_given=_robot_as_typed(inputs.run.get("robot")),
        folder=str(inputs.run.get("folder") or ""),
        file_format=choose_format(estimate.robot),
        name=name,
    )


def _select_same_joints(inputs: ReportInputs) -> dict[str, Estimate]:
    """Select estimates with the same joints, whose torques can be compared; others compare only parameters."""
    joints = inputs.estimate.regressor.joint_names
    return {name: estimate for name, estimate in inputs.comparison.items() if estimate.regressor.joint_names == joints}


def _robot_as_typed(robot: object) -> str:
    """Return the robot as typed by the user, from the record of a run."""
    return str(robot.get("given", "")) if isinstance(robot, Mapping) else ""


def _joint_data(estimate: Estimate) -> tuple[JointData, ...]:
    units = {"revolute": ("N m", "rad"), "prismatic": ("N", "m")}
    return tuple(JointData(joint.name, *units[joint.kind]) for joint in estimate.robot.primary_joints)


def draw_skeleton(robot: Robot, evidence: Sequence[LogView], meshes: Meshes | None = None) -> SkeletonData | None:
    """Return the robot as lines in space for some poses along the first log, with closed loops."""
    return compute_skeleton(robot, *_poses(robot, evidence), _torque_fractions(evidence), meshes=meshes)


def _poses(robot: Robot, evidence: Sequence[LogView]) -> tuple[Array, Array]:
    """Return evenly spaced positions and times of the first log, or the rest pose without logs."""
    if not evidence:
        return _rest_pose(robot)[None], np.zeros(1)
    prediction = evidence[0].prediction
    rows = _drawn_rows(len(prediction.time))
    return prediction.samples.q[rows], prediction.time[rows] - prediction.time[0]


def _rest_pose(robot: Robot) -> Array:
    """Return zero positions (n,) of the primary joints, or a pose in which the loops are closed."""
    if not robot.loops:
        return np.zeros(robot.joint_count)
    closure = home_closure(robot)
    return np.asarray(closure.home[list(closure.primary)])


def _torque_fractions(evidence: Sequence[LogView]) -> Array | None:
    """Return torques relative to the peak of each joint, at the drawn rows."""
    if not evidence:
        return None
    size = np.abs(evidence[0].prediction.measured)
    greatest = size.max(axis=0)
    return np.asarray(size[_drawn_rows(len(size))] / np.where(greatest > 0, greatest, 1.0))


def _drawn_rows(count: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, MAX_DRAWN_POSES).astype(int))
