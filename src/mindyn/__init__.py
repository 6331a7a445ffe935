"""mindyn, minimal dynamics: the smallest model that explains a robot arm, and the fastest code that evaluates it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindyn.equations.catalogue import equation
    from mindyn.errors import MindynError
    from mindyn.estimators.energy_difference import EnergyDifference
    from mindyn.estimators.essential import essential
    from mindyn.estimators.estimate import Estimate, load_estimate
    from mindyn.estimators.estimator import Estimator
    from mindyn.estimators.instrumental_variables import InstrumentalVariables
    from mindyn.estimators.last_link_first import LastLinkFirst
    from mindyn.estimators.least_squares import LeastSquares
    from mindyn.estimators.output_error import OutputError
    from mindyn.estimators.recursive import RecursiveLeastSquares
    from mindyn.estimators.step_by_step import StepByStep
    from mindyn.estimators.total_least_squares import TotalLeastSquares
    from mindyn.excitation.capsules import Capsule
    from mindyn.excitation.constraints import Box
    from mindyn.excitation.design import design_motion
    from mindyn.excitation.fourier import Fourier
    from mindyn.excitation.limits import MotionLimits
    from mindyn.excitation.splines import BSpline
    from mindyn.excitation.step_planner import plan_tests
    from mindyn.export.mat_writer import write_mat
    from mindyn.export.mjcf_writer import write_mjcf
    from mindyn.export.pinocchio_model import to_pinocchio
    from mindyn.export.ros2_package import write_ros2_package
    from mindyn.export.toml_writer import write_toml
    from mindyn.export.urdf_writer import write_urdf
    from mindyn.feasibility.bounds import Bounds
    from mindyn.feasibility.check import check_feasible, make_feasible
    from mindyn.feasibility.full_model import full_model
    from mindyn.feasibility.physically_consistent import PhysicallyConsistent
    from mindyn.identifiability.base_sets import base_parameters
    from mindyn.identification.choosing import choose
    from mindyn.identification.identify import identify
    from mindyn.kernels.model import Model, compile_model
    from mindyn.loads.from_runs import drive_gains
    from mindyn.loads.payload import payload
    from mindyn.logs.conditioning import Conditioning
    from mindyn.logs.log import Log, log_of_arrays
    from mindyn.logs.pipeline import condition
    from mindyn.logs.reading import read_log, scan_log
    from mindyn.logs.samples import Samples
    from mindyn.parameters.base import BaseParameters
    from mindyn.regression.friction import Friction
    from mindyn.regression.rows import rows_of
    from mindyn.regression.treatment import Treatment
    from mindyn.report.writing import write_report
    from mindyn.robots.loading import bundled_robots, load_robot
    from mindyn.robots.parts import Drive, ExtraTorque, Joint, Link
    from mindyn.robots.robot import Robot
    from mindyn.simulation.controllers import ComputedTorque, SineMotion
    from mindyn.simulation.rollouts import rollout
    from mindyn.simulation.sensors import Sensors
    from mindyn.simulation.simulate import simulate
    from mindyn.validation.validate import validate

__version__ = "0.2.0"

_HOMES: dict[str, tuple[str, ...]] = {
    "mindyn.robots.loading": ("load_robot", "bundled_robots"),
    "mindyn.robots.robot": ("Robot",),
    "mindyn.robots.parts": ("Link", "Joint", "Drive", "ExtraTorque"),
    "mindyn.identifiability.base_sets": ("base_parameters",),
    "mindyn.parameters.base": ("BaseParameters",),
    "mindyn.kernels.model": ("compile_model", "Model"),
    "mindyn.equations.catalogue": ("equation",),
    "mindyn.logs.reading": ("read_log", "scan_log"),
    "mindyn.logs.log": ("log_of_arrays", "Log"),
    "mindyn.logs.conditioning": ("Conditioning",),
    "mindyn.logs.pipeline": ("condition",),
    "mindyn.logs.samples": ("Samples",),
    "mindyn.identification.identify": ("identify",),
    "mindyn.identification.choosing": ("choose",),
    "mindyn.regression.rows": ("rows_of",),
    "mindyn.regression.treatment": ("Treatment",),
    "mindyn.regression.friction": ("Friction",),
    "mindyn.estimators.estimate": ("Estimate", "load_estimate"),
    "mindyn.estimators.estimator": ("Estimator",),
    "mindyn.estimators.least_squares": ("LeastSquares",),
    "mindyn.feasibility.physically_consistent": ("PhysicallyConsistent",),
    "mindyn.estimators.instrumental_variables": ("InstrumentalVariables",),
    "mindyn.estimators.energy_difference": ("EnergyDifference",),
    "mindyn.estimators.total_least_squares": ("TotalLeastSquares",),
    "mindyn.estimators.output_error": ("OutputError",),
    "mindyn.estimators.last_link_first": ("LastLinkFirst",),
    "mindyn.estimators.recursive": ("RecursiveLeastSquares",),
    "mindyn.estimators.step_by_step": ("StepByStep",),
    "mindyn.validation.validate": ("validate",),
    "mindyn.estimators.essential": ("essential",),
    "mindyn.feasibility.check": ("check_feasible", "make_feasible"),
    "mindyn.feasibility.full_model": ("full_model",),
    "mindyn.feasibility.bounds": ("Bounds",),
    "mindyn.loads.from_runs": ("drive_gains",),
    "mindyn.loads.payload": ("payload",),
    "mindyn.excitation.design": ("design_motion",),
    "mindyn.excitation.limits": ("MotionLimits",),
    "mindyn.excitation.fourier": ("Fourier",),
    "mindyn.excitation.splines": ("BSpline",),
    "mindyn.excitation.capsules": ("Capsule",),
    "mindyn.excitation.constraints": ("Box",),
    "mindyn.excitation.step_planner": ("plan_tests",),
    "mindyn.simulation.simulate": ("simulate",),
    "mindyn.simulation.rollouts": ("rollout",),
    "mindyn.simulation.controllers": ("SineMotion", "ComputedTorque"),
    "mindyn.simulation.sensors": ("Sensors",),
    "mindyn.export.toml_writer": ("write_toml",),
    "mindyn.export.urdf_writer": ("write_urdf",),
    "mindyn.export.mjcf_writer": ("write_mjcf",),
    "mindyn.export.mat_writer": ("write_mat",),
    "mindyn.export.ros2_package": ("write_ros2_package",),
    "mindyn.export.pinocchio_model": ("to_pinocchio",),
    "mindyn.report.writing": ("write_report",),
    "mindyn.errors": ("MindynError",),
}
"""Where the public names are defined, in the order of the work."""

_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 - in the order of the work
    # robots
    "load_robot",
    "bundled_robots",
    "Robot",
    "Link",
    "Joint",
    "Drive",
    "ExtraTorque",
    # base parameters
    "base_parameters",
    "BaseParameters",
    # model
    "compile_model",
    "Model",
    "equation",
    # logs
    "read_log",
    "scan_log",
    "log_of_arrays",
    "Log",
    "Conditioning",
    "condition",
    "Samples",
    # identification
    "identify",
    "choose",
    "rows_of",
    "Treatment",
    "Friction",
    "Estimate",
    "load_estimate",
    # estimators
    "Estimator",
    "LeastSquares",
    "PhysicallyConsistent",
    "InstrumentalVariables",
    "EnergyDifference",
    "TotalLeastSquares",
    "OutputError",
    "LastLinkFirst",
    "RecursiveLeastSquares",
    "StepByStep",
    # judgement
    "validate",
    "essential",
    "check_feasible",
    "make_feasible",
    "full_model",
    "Bounds",
    "payload",
    "drive_gains",
    # excitation
    "design_motion",
    "MotionLimits",
    "Fourier",
    "BSpline",
    "Capsule",
    "Box",
    "plan_tests",
    # simulation
    "simulate",
    "rollout",
    "SineMotion",
    "ComputedTorque",
    "Sensors",
    # export
    "write_toml",
    "write_urdf",
    "write_mjcf",
    "write_mat",
    "write_ros2_package",
    "to_pinocchio",
    # report
    "write_report",
    # errors
    "MindynError",
    "__version__",
]


_DRAWER = "mindyn.report.objects"
"""The module that draws values in notebooks: a later layer than their own (see `mindyn.pages.showing`)."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import mindyn` costs nothing heavy."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'mindyn' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
