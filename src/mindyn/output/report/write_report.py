"""Write a report about an estimate as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mindyn.applications.validation.trajectories import Trajectories
from mindyn.applications.validation.validate import Validation
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.pages.document import format_plural, render_document
from mindyn.identification.elasticity.records import Elasticity
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.feasibility.check_feasible import Feasibility
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.logs.log import Log
from mindyn.output.report.comparison_section import comparison_section
from mindyn.output.report.elasticity_section import elasticity_section
from mindyn.output.report.feasibility_section import feasibility_section
from mindyn.output.report.motion_sections import excitation_section, motion_section, robot_section
from mindyn.output.report.parameter_section import parameter_section
from mindyn.output.report.provenance_section import provenance_section
from mindyn.output.report.report_data import ReportData, collect_report_data
from mindyn.output.report.torque_sections import friction_section, residual_section, torque_section
from mindyn.output.report.verdict_section import verdict_section
from mindyn.output.view.write_view import view_extras
from mindyn.robots.meshes import Meshes
from mindyn.robots.robot import Robot

SECTIONS: Final = (
    *(verdict_section, torque_section, parameter_section, excitation_section, friction_section, residual_section),
    elasticity_section,
    *(feasibility_section, motion_section, comparison_section, robot_section, provenance_section),
)
"""Sections of a report in their order."""


def write_report(
    estimate: Estimate,
    path: str | Path,
    *,
    validation_logs: Log | Sequence[Log] = (),
    validation: Validation | None = None,
    training_logs: Log | Sequence[Log] = (),
    feasibility: Feasibility | Sequence[Answer] = (),
    motion: Trajectories | None = None,
    comparison: Mapping[str, Estimate] | None = None,
    prior: Robot | None = None,
    run: Mapping[str, Any] | None = None,
    meshes: Meshes | None = None,
    elasticity: Elasticity | None = None,
) -> Path:
    """Write a report about an estimate as a single self-contained HTML file.

    Parameters
    ----------
    estimate : Estimate
        Estimate to report.
    path : str or Path
        File to write.
    validation_logs : Log or sequence of Log
        Held-out logs. Without them, the report shows the errors of the fit, which are optimistic.
    validation : Validation, optional
        Result of `validate` on these logs, to avoid computing it again.
    training_logs : Log or sequence of Log
        Logs of the fit, to show their torques and motion.
    feasibility : Feasibility or sequence of Answer
        Result of `check_feasible`.
    motion : Trajectories, optional
        Simulated and measured positions, from `mindyn.applications.compare_trajectories`.
    comparison : mapping of str to Estimate, optional
        Other estimates by name, validated on the same logs.
    prior : Robot, optional
        Prior robot for the comparison; default: the robot of the estimate.
    run : mapping, optional
        Record of the run: command, inputs and versions, as in run.json of `mindyn identify`. Its entry `validation` is
        an earlier result on held-out logs (`Validation.to_dict`).
    meshes : Meshes, optional
        Meshes of the links (`read_meshes`); without them, the robot is drawn by its volumes, or as lines.
    elasticity : Elasticity, optional
        Elasticity of the joints (`identify_elasticity`).

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    InputError
        If motion, validation and logs do not fit the estimate or each other.

    Examples
    --------
    >>> mindyn.write_report(estimate, "report.html", validation_logs=log)  # doctest: +SKIP
    """
    data = collect_report_data(
        estimate,
        validation_logs,
        training_logs,
        feasibility,
        motion,
        comparison,
        prior,
        run,
        meshes,
        validation,
        elasticity,
    )
    return write_file_atomically(path, build_page(data))


def build_page(data: ReportData) -> str:
    """Return the HTML text of a report."""
    sections = [section for make in SECTIONS if (section := make(data)) is not None]
    robot, method = data.estimate.robot.name, data.estimate.provenance.method
    about = ", ".join(filter(None, ("Identified dynamics", format_plural(len(data.joints), "joint"), method)))
    return render_document(f"{robot}: identified dynamics", about, sections, heading=robot, extras=view_extras())
