"""`write_report`: an estimate, judged and explained, as one HTML file; `page` is its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mindyn.estimators.estimate import Estimate
from mindyn.feasibility.answer import Answer
from mindyn.feasibility.check import Feasibility
from mindyn.files import write_file_atomically
from mindyn.logs.log import Log
from mindyn.pages.document import render_document
from mindyn.pages.markup import format_plural
from mindyn.report.collection import collect_report_data
from mindyn.report.data import ReportData
from mindyn.report.excitation_and_friction import (
    comparison_section,
    excitation_section,
    friction_section,
)
from mindyn.report.feasibility_answers import feasibility_section
from mindyn.report.inputs import MotionComparison, ReportInputs
from mindyn.report.parameter_table import parameter_section
from mindyn.report.residuals import motion_section, provenance_section, residual_section, robot_section
from mindyn.report.verdict_sections import torque_section, verdict_section
from mindyn.robots.meshes import Meshes
from mindyn.robots.robot import Robot
from mindyn.validation.validate import Validation

SECTIONS: Final = (
    *(verdict_section, torque_section, parameter_section, excitation_section, friction_section, residual_section),
    *(feasibility_section, motion_section, comparison_section, robot_section, provenance_section),
)
"""In the order of the questions that a reader asks."""


def write_report(
    path: str | Path,
    estimate: Estimate,
    *,
    validation_logs: Log | Sequence[Log] = (),
    validation: Validation | None = None,
    training_logs: Log | Sequence[Log] = (),
    feasibility: Feasibility | Sequence[Answer] = (),
    motion: MotionComparison | None = None,
    comparison: Mapping[str, Estimate] | None = None,
    prior: Robot | None = None,
    run: Mapping[str, Any] | None = None,
    meshes: Meshes | None = None,
) -> None:
    """Write one file that opens from disk and loads nothing: the verdict, and all that bears on it.

    validation_logs  not used in the fit: the verdict is on them; on the fit itself where there are none
    validation       what `validate` said of them, where it was asked already: then nothing is predicted twice
    training_logs    used in the fit: their torques and motion are shown too
    feasibility      whether such a robot can exist: what `check_feasible` says
    motion           simulated beside measured positions
    comparison       other estimates by name, judged on the same logs
    prior            the robot as its maker describes it; the estimate's own robot if left out
    run              how it was made: command, inputs, versions, as in run.json of `mindyn identify`; `validation`: what
                     held-out logs that are not given said then, as `Validation.to_dict`
    meshes           what the links look like, as `read_meshes` has them; the drawing is of lines alone without
    """
    inputs = ReportInputs(
        estimate,
        _as_list(validation_logs),
        _as_list(training_logs),
        feasibility.answers if isinstance(feasibility, Feasibility) else feasibility,
        motion,
        comparison or {},
        prior,
        run or {},
        meshes,
        validation,
        feasibility.findings(estimate) if isinstance(feasibility, Feasibility) else (),
    )
    write_file_atomically(path, build_page(collect_report_data(inputs)))


def _as_list(logs: Log | Sequence[Log]) -> Sequence[Log]:
    return [logs] if isinstance(logs, Log) else logs


def build_page(data: ReportData) -> str:
    """The whole file."""
    sections = [made for make in SECTIONS if (made := make(data)) is not None]
    about = ", ".join(filter(None, ("Identified dynamics", format_plural(len(data.joints), "joint"), data.estimator)))
    return render_document(f"{data.robot}: identified dynamics", about, sections, heading=data.robot)
