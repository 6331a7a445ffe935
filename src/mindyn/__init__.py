"""mindyn, minimal dynamics: the smallest model that explains a robot arm, and the fastest code that evaluates it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindyn.equations.catalogue import equation
    from mindyn.equations.loop_dynamics import LoopDynamics, loop_dynamics
    from mindyn.errors import MindynError
    from mindyn.estimators.closed_loop_instruments import ClosedLoopInstruments
    from mindyn.estimators.energy_difference import EnergyDifference
    from mindyn.estimators.essential import essential
    from mindyn.estimators.estimate import Estimate, load_estimate
    from mindyn.estimators.estimator import Estimator
    from mindyn.estimators.instrumental_variables import InstrumentalVariables
    from mindyn.estimators.last_link_first import LastLinkFirst
    from mindyn.estimators.least_squares import LeastSquares
    from mindyn.estimators.loads import drive_gains, payload
    from mindyn.estimators.measurement_noise import MeasurementNoise
    from mindyn.estimators.output_error import OutputError
    from mindyn.estimators.recursive import RecursiveLeastSquares
    from mindyn.estimators.recursive_instruments import RecursiveInstruments
    from mindyn.estimators.reduction import reduce_estimate
    from mindyn.estimators.step_by_step import StepByStep
    from mindyn.estimators.total_least_squares import TotalLeastSquares
    from mindyn.excitation.capsules import Capsule, capsules_of
    from mindyn.excitation.constraints import Box
    from mindyn.excitation.design import design_motion
    from mindyn.excitation.fourier import Fourier
    from mindyn.excitation.limits import MotionLimits
    from mindyn.excitation.motion_design import MotionDesign
    from mindyn.excitation.splines import BSpline
    from mindyn.excitation.step_files import read_test_logs, write_motions, write_test_logs
    from mindyn.excitation.step_plan import StepPlan, load_plan
    from mindyn.excitation.step_planner import plan_tests
    from mindyn.excitation.step_simulation import simulate_tests
    from mindyn.export.mat_writer import write_mat
    from mindyn.export.mjcf_writer import write_mjcf
    from mindyn.export.pinocchio_model import to_pinocchio
    from mindyn.export.ros2_package import write_ros2_package
    from mindyn.export.toml_writer import write_toml
    from mindyn.export.urdf_writer import write_urdf
    from mindyn.feasibility.bounds import Bounds, bounds_of_shapes
    from mindyn.feasibility.check import Feasibility, check_feasible, make_feasible
    from mindyn.feasibility.consistent_gains import consistent_drive_gains
    from mindyn.feasibility.full_model import full_model
    from mindyn.feasibility.intervals import Intervals, constrained_intervals, torque_bands
    from mindyn.feasibility.mending import mend_possible
    from mindyn.feasibility.physically_consistent import PhysicallyConsistent
    from mindyn.feasibility.possible import judge_possible
    from mindyn.identifiability.base_sets import base_parameters
    from mindyn.identifiability.design_questions import added_body, added_point_mass
    from mindyn.identifiability.essential_space import constraint_matrix
    from mindyn.identifiability.placed_mass import place_point_mass
    from mindyn.identifiability.reduction import reduce_model
    from mindyn.identification.choosing import Choice, choose
    from mindyn.identification.identify import identify
    from mindyn.kernels.model import Model, compile_model
    from mindyn.kernels.observer import MomentumObserver
    from mindyn.logs.conditioning import AS_LOGGED, Conditioning
    from mindyn.logs.log import Log, log_of_arrays
    from mindyn.logs.pipeline import condition, condition_stream
    from mindyn.logs.reading import read_log, scan_log
    from mindyn.logs.samples import Samples
    from mindyn.notes import Note
    from mindyn.parameters.base import BaseParameters
    from mindyn.parameters.parameter import Parameter
    from mindyn.regression.friction import Friction
    from mindyn.regression.regressor import with_estimated_drives
    from mindyn.regression.rows import Rows, rows_of
    from mindyn.regression.treatment import Treatment
    from mindyn.report.inputs import MotionComparison
    from mindyn.report.writing import write_report
    from mindyn.robots.friction_laws import asymmetric_coulomb, asymmetric_viscous, stribeck
    from mindyn.robots.loading import bundled_robots, load_robot
    from mindyn.robots.parts import (
        Drive,
        ExtraTorque,
        Frame,
        Joint,
        Limits,
        Link,
        Loop,
        Mimic,
        Shape,
    )
    from mindyn.robots.robot import Robot
    from mindyn.simulation.control_laws import ControlLaw
    from mindyn.simulation.controllers import ComputedTorque, ProportionalDerivative, SineMotion
    from mindyn.simulation.results import TorqueLog
    from mindyn.simulation.rollouts import compiled_rollout, rollout
    from mindyn.simulation.sensors import Sensors, measure
    from mindyn.simulation.simulate import simulate
    from mindyn.validation.bench_setting import BenchSetting
    from mindyn.validation.method_bench import Comparison, compare_methods
    from mindyn.validation.trajectories import Trajectories, simulated_against_measured
    from mindyn.validation.validate import Verdict, compare, validate

__version__ = "0.2.0"

_HOMES: dict[str, tuple[str, ...]] = {
    "mindyn.equations.catalogue": ("equation",),
    "mindyn.equations.loop_dynamics": ("LoopDynamics", "loop_dynamics"),
    "mindyn.errors": ("MindynError",),
    "mindyn.estimators.closed_loop_instruments": ("ClosedLoopInstruments",),
    "mindyn.estimators.energy_difference": ("EnergyDifference",),
    "mindyn.estimators.instrumental_variables": ("InstrumentalVariables",),
    "mindyn.estimators.last_link_first": ("LastLinkFirst",),
    "mindyn.estimators.measurement_noise": ("MeasurementNoise",),
    "mindyn.estimators.output_error": ("OutputError",),
    "mindyn.estimators.step_by_step": ("StepByStep",),
    "mindyn.estimators.total_least_squares": ("TotalLeastSquares",),
    "mindyn.excitation.step_files": ("read_test_logs", "write_motions", "write_test_logs"),
    "mindyn.excitation.step_plan": ("StepPlan", "load_plan"),
    "mindyn.excitation.step_planner": ("plan_tests",),
    "mindyn.excitation.step_simulation": ("simulate_tests",),
    "mindyn.estimators.essential": ("essential",),
    "mindyn.estimators.estimate": (
        "Estimate",
        "load_estimate",
    ),
    "mindyn.estimators.least_squares": ("LeastSquares",),
    "mindyn.estimators.loads": (
        "drive_gains",
        "payload",
    ),
    "mindyn.estimators.estimator": ("Estimator",),
    "mindyn.identification.choosing": ("Choice", "choose"),
    "mindyn.identification.identify": ("identify",),
    "mindyn.logs.log": ("Log", "log_of_arrays"),
    "mindyn.notes": ("Note",),
    "mindyn.parameters.parameter": ("Parameter",),
    "mindyn.regression.rows": ("Rows", "rows_of"),
    "mindyn.regression.treatment": ("Treatment",),
    "mindyn.estimators.reduction": ("reduce_estimate",),
    "mindyn.estimators.recursive": ("RecursiveLeastSquares",),
    "mindyn.estimators.recursive_instruments": ("RecursiveInstruments",),
    "mindyn.regression.friction": ("Friction",),
    "mindyn.regression.regressor": ("with_estimated_drives",),
    "mindyn.validation.bench_setting": ("BenchSetting",),
    "mindyn.validation.method_bench": ("Comparison", "compare_methods"),
    "mindyn.validation.trajectories": ("Trajectories", "simulated_against_measured"),
    "mindyn.validation.validate": (
        "Verdict",
        "compare",
        "validate",
    ),
    "mindyn.export.mat_writer": ("write_mat",),
    "mindyn.excitation.capsules": ("Capsule", "capsules_of"),
    "mindyn.excitation.constraints": ("Box",),
    "mindyn.excitation.design": ("design_motion",),
    "mindyn.excitation.fourier": ("Fourier",),
    "mindyn.excitation.limits": ("MotionLimits",),
    "mindyn.excitation.motion_design": ("MotionDesign",),
    "mindyn.excitation.splines": ("BSpline",),
    "mindyn.export.mjcf_writer": ("write_mjcf",),
    "mindyn.export.pinocchio_model": ("to_pinocchio",),
    "mindyn.export.ros2_package": ("write_ros2_package",),
    "mindyn.export.toml_writer": ("write_toml",),
    "mindyn.export.urdf_writer": ("write_urdf",),
    "mindyn.feasibility.bounds": ("Bounds", "bounds_of_shapes"),
    "mindyn.feasibility.check": ("Feasibility", "check_feasible", "make_feasible"),
    "mindyn.feasibility.consistent_gains": ("consistent_drive_gains",),
    "mindyn.feasibility.full_model": ("full_model",),
    "mindyn.feasibility.intervals": ("Intervals", "constrained_intervals", "torque_bands"),
    "mindyn.feasibility.physically_consistent": ("PhysicallyConsistent",),
    "mindyn.feasibility.mending": ("mend_possible",),
    "mindyn.feasibility.possible": ("judge_possible",),
    "mindyn.identifiability.base_sets": ("base_parameters",),
    "mindyn.identifiability.design_questions": ("added_body", "added_point_mass"),
    "mindyn.identifiability.essential_space": ("constraint_matrix",),
    "mindyn.identifiability.placed_mass": ("place_point_mass",),
    "mindyn.identifiability.reduction": ("reduce_model",),
    "mindyn.kernels.observer": ("MomentumObserver",),
    "mindyn.kernels.model": ("Model", "compile_model"),
    "mindyn.logs.conditioning": ("AS_LOGGED", "Conditioning"),
    "mindyn.logs.pipeline": ("condition", "condition_stream"),
    "mindyn.logs.reading": ("read_log", "scan_log"),
    "mindyn.logs.samples": ("Samples",),
    "mindyn.parameters.base": ("BaseParameters",),
    "mindyn.report.inputs": ("MotionComparison",),
    "mindyn.report.writing": ("write_report",),
    "mindyn.robots.loading": ("bundled_robots", "load_robot"),
    "mindyn.robots.parts": (*("Drive", "ExtraTorque", "Frame", "Joint", "Limits", "Link", "Loop", "Mimic", "Shape"),),
    "mindyn.robots.friction_laws": ("asymmetric_coulomb", "asymmetric_viscous", "stribeck"),
    "mindyn.robots.robot": ("Robot",),
    "mindyn.simulation.control_laws": ("ControlLaw",),
    "mindyn.simulation.controllers": ("ComputedTorque", "ProportionalDerivative", "SineMotion"),
    "mindyn.simulation.results": ("TorqueLog",),
    "mindyn.simulation.rollouts": ("compiled_rollout", "rollout"),
    "mindyn.simulation.sensors": ("Sensors", "measure"),
    "mindyn.simulation.simulate": ("simulate",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 - in the order of the work
    "load_robot",
    "bundled_robots",
    "Robot",
    "Link",
    "Joint",
    "Limits",
    "Frame",
    "Shape",
    "Drive",
    "Loop",
    "Mimic",
    "ExtraTorque",
    "stribeck",
    "asymmetric_coulomb",
    "asymmetric_viscous",
    "base_parameters",
    "BaseParameters",
    "constraint_matrix",
    "reduce_model",
    "added_body",
    "added_point_mass",
    "place_point_mass",
    "equation",
    "compile_model",
    "Model",
    "MomentumObserver",
    "LoopDynamics",
    "loop_dynamics",
    "simulate",
    "rollout",
    "compiled_rollout",
    "SineMotion",
    "ProportionalDerivative",
    "ComputedTorque",
    "ControlLaw",
    "TorqueLog",
    "Sensors",
    "measure",
    "design_motion",
    "MotionDesign",
    "MotionLimits",
    "Fourier",
    "BSpline",
    "Capsule",
    "capsules_of",
    "Box",
    "read_log",
    "scan_log",
    "Log",
    "log_of_arrays",
    "Conditioning",
    "AS_LOGGED",
    "condition",
    "condition_stream",
    "Samples",
    "identify",
    "choose",
    "Choice",
    "Treatment",
    "rows_of",
    "Rows",
    "Estimator",
    "Parameter",
    "Note",
    "LeastSquares",
    "RecursiveLeastSquares",
    "RecursiveInstruments",
    "ClosedLoopInstruments",
    "EnergyDifference",
    "InstrumentalVariables",
    "LastLinkFirst",
    "MeasurementNoise",
    "OutputError",
    "TotalLeastSquares",
    "plan_tests",
    "StepPlan",
    "load_plan",
    "write_motions",
    "simulate_tests",
    "write_test_logs",
    "read_test_logs",
    "StepByStep",
    "Friction",
    "with_estimated_drives",
    "Estimate",
    "load_estimate",
    "essential",
    "reduce_estimate",
    "payload",
    "drive_gains",
    "consistent_drive_gains",
    "PhysicallyConsistent",
    "Bounds",
    "bounds_of_shapes",
    "Feasibility",
    "check_feasible",
    "make_feasible",
    "constrained_intervals",
    "torque_bands",
    "Intervals",
    "full_model",
    "judge_possible",
    "mend_possible",
    "validate",
    "compare",
    "Verdict",
    "simulated_against_measured",
    "Trajectories",
    "compare_methods",
    "BenchSetting",
    "Comparison",
    "write_report",
    "MotionComparison",
    "write_toml",
    "write_urdf",
    "write_mjcf",
    "write_mat",
    "write_ros2_package",
    "to_pinocchio",
    "MindynError",
    "__version__",
]

_GONE: dict[str, str] = {
    "identify_by": "identify(robot, logs, estimator), such as LastLinkFirst(), chooses the same settings",
    "identify_consistent": 'identify(robot, logs, PhysicallyConsistent(covariance="correlated"))',
}
"""Names of earlier versions, and the new way."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import mindyn` costs nothing heavy."""
    if name in _GONE:
        raise AttributeError(f"mindyn.{name} went: {_GONE[name]}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'mindyn' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
