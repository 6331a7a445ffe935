"""`page`: a report's data as one HTML text."""

from __future__ import annotations

from typing import Final

from mindyn.pages.document import document
from mindyn.pages.markup import plural
from mindyn.report.data import ReportData
from mindyn.report.excitation_and_friction import (
    comparison_section,
    excitation_section,
    friction_section,
)
from mindyn.report.existence import feasibility_section
from mindyn.report.judgement import torque_section, verdict_section
from mindyn.report.parameter_table import parameter_section
from mindyn.report.residuals import making_section, motion_section, residual_section, robot_section

SECTIONS: Final = (
    *(verdict_section, torque_section, parameter_section, excitation_section, friction_section, residual_section),
    *(feasibility_section, motion_section, comparison_section, robot_section, making_section),
)
"""In the order of the questions that a reader asks."""


def page(data: ReportData) -> str:
    """The whole file."""
    sections = [made for make in SECTIONS if (made := make(data)) is not None]
    about = ", ".join(filter(None, ("Identified dynamics", plural(len(data.joints), "joint"), data.estimator)))
    return document(f"{data.robot}: identified dynamics", about, sections, heading=data.robot)
