# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.identification.elasticity.identify_elasticity import DeflectionPrediction as DeflectionPrediction
from mindyn.identification.elasticity.identify_elasticity import identify_elasticity as identify_elasticity
from mindyn.identification.elasticity.identify_elasticity import predict_deflection as predict_deflection
from mindyn.identification.elasticity.records import Elasticity as Elasticity
from mindyn.identification.elasticity.records import JointElasticity as JointElasticity
from mindyn.identification.elasticity.records import load_elasticity as load_elasticity
from mindyn.identification.estimators.closed_loop_instruments import ClosedLoopInstruments as ClosedLoopInstruments
from mindyn.identification.estimators.essential import reduce_estimate as reduce_estimate
from mindyn.identification.estimators.estimate_parts import FitData as FitData
from mindyn.identification.estimators.estimate_parts import ParameterValues as ParameterValues
from mindyn.identification.estimators.estimate_parts import Provenance as Provenance
from mindyn.identification.estimators.estimate_parts import Uncertainty as Uncertainty
from mindyn.identification.estimators.recursive_instruments import RecursiveInstruments as RecursiveInstruments
from mindyn.identification.feasibility.check_feasible import Feasibility as Feasibility
from mindyn.identification.feasibility.checks.full_model_check import LinkPlausibility as LinkPlausibility
from mindyn.identification.feasibility.checks.full_model_check import Plausibility as Plausibility
from mindyn.identification.feasibility.checks.full_model_check import check_full_model as check_full_model
from mindyn.identification.feasibility.checks.positive_definite import (
    check_positive_definite as check_positive_definite,
)
from mindyn.identification.feasibility.conditions.user_bounds import bounds_from_shapes as bounds_from_shapes
from mindyn.identification.feasibility.physical_intervals import add_physical_intervals as add_physical_intervals
from mindyn.identification.feasibility.projections.positive_definite_projection import (
    project_to_positive_definite as project_to_positive_definite,
)
from mindyn.identification.log_drafts import draft_log as draft_log
from mindyn.identification.method_names import METHODS as METHODS
from mindyn.identification.prediction.torque_bands import torque_bands as torque_bands
from mindyn.identification.selection.choose import Choice as Choice
from mindyn.identification.servos.contact_rows import Table as Table
from mindyn.identification.servos.replay import ServoReplay as ServoReplay
from mindyn.identification.servos.servo_estimate import ServoEstimate as ServoEstimate
from mindyn.identification.servos.servo_estimate import load_servo_estimate as load_servo_estimate
from mindyn.identification.servos.servo_samples import ServoSamples as ServoSamples
from mindyn.identification.uncertainty.model_samples import ModelSamples as ModelSamples
from mindyn.identification.unknown_gains import EstimatedGains as EstimatedGains
from mindyn.identification.unknown_gains import WeighedLoad as WeighedLoad
from mindyn.identification.unknown_gains import estimate_gains as estimate_gains
from mindyn.identification.unknown_gains import group_gains as group_gains
