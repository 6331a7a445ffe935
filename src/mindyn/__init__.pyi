# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.robots.loading import load_robot as load_robot, bundled_robots as bundled_robots
from mindyn.robots.loading import identified_robots as identified_robots
from mindyn.robots.robot import Robot as Robot
from mindyn.robots.parts import Link as Link, Joint as Joint, Drive as Drive, ExtraTorque as ExtraTorque
from mindyn.equations.identifiability.base_sets import base_parameters as base_parameters
from mindyn.parameters.base import BaseParameters as BaseParameters
from mindyn.kernels.model import compile_model as compile_model, Model as Model
from mindyn.equations.catalogue import equation as equation
from mindyn.logs.reading import read_log as read_log, scan_log as scan_log
from mindyn.logs.log import log_from_arrays as log_from_arrays, Log as Log
from mindyn.logs.conditioning import Conditioning as Conditioning
from mindyn.logs.pipeline import condition as condition
from mindyn.logs.samples import Samples as Samples
from mindyn.identification.identify import identify as identify
from mindyn.identification.servos.identify_servos import identify_servos as identify_servos
from mindyn.identification.servos.replay import replay_servos as replay_servos
from mindyn.identification.selection.choose import choose as choose
from mindyn.regression.experiment import Experiment as Experiment
from mindyn.regression.building import build_rows as build_rows
from mindyn.regression.settings import EquationSettings as EquationSettings
from mindyn.regression.friction import Friction as Friction
from mindyn.identification.estimators.estimate import Estimate as Estimate, load_estimate as load_estimate
from mindyn.identification.estimators.estimate import Estimator as Estimator
from mindyn.identification.estimators.least_squares import LeastSquares as LeastSquares
from mindyn.identification.feasibility.physically_consistent import PhysicallyConsistent as PhysicallyConsistent
from mindyn.identification.estimators.instrumental_variables import InstrumentalVariables as InstrumentalVariables
from mindyn.identification.estimators.energy_difference import EnergyDifference as EnergyDifference
from mindyn.identification.estimators.last_link_first import LastLinkFirst as LastLinkFirst
from mindyn.identification.estimators.recursive_least_squares import RecursiveLeastSquares as RecursiveLeastSquares
from mindyn.applications.step_tests.estimator import StepByStep as StepByStep
from mindyn.applications.validation.validate import validate as validate
from mindyn.identification.estimators.essential import essential as essential
from mindyn.identification.feasibility.check import check_feasible as check_feasible
from mindyn.identification.feasibility.consistent_projection import make_feasible as make_feasible
from mindyn.identification.feasibility.full_model import full_model as full_model
from mindyn.identification.feasibility.bounds import Bounds as Bounds
from mindyn.applications.payload.payload import payload as payload
from mindyn.motions.excitation.design import design_motion as design_motion
from mindyn.motions.excitation.limits import MotionLimits as MotionLimits
from mindyn.motions.excitation.safety import SafetySettings as SafetySettings
from mindyn.motions.excitation.design_inputs import SearchSettings as SearchSettings
from mindyn.motions.excitation.motions import Fourier as Fourier
from mindyn.motions.step_plans.planner import plan_tests as plan_tests
from mindyn.motions.simulation.simulate import simulate as simulate
from mindyn.motions.simulation.rollouts import rollout as rollout
from mindyn.motions.simulation.controllers import SineMotion as SineMotion, ComputedTorque as ComputedTorque
from mindyn.motions.simulation.sensors import Sensors as Sensors
from mindyn.output.export.toml_writer import write_toml as write_toml
from mindyn.output.export.urdf_writer import write_urdf as write_urdf
from mindyn.output.export.mjcf_writer import write_mjcf as write_mjcf
from mindyn.output.export.ros2_package import write_ros2_package as write_ros2_package
from mindyn.output.export.pinocchio_model import to_pinocchio as to_pinocchio
from mindyn.output.report.writing import write_report as write_report
from mindyn.foundation.errors import MindynError as MindynError

__version__: str
