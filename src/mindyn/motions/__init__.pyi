# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.motions.excitation.complementary import design_motions as design_motions
from mindyn.motions.excitation.constraints import Box as Box
from mindyn.motions.excitation.motion_design import MotionDesign as MotionDesign
from mindyn.motions.excitation.volumes import Capsule as Capsule
from mindyn.motions.excitation.volumes import volumes_of as volumes_of
from mindyn.motions.simulation.controllers import ControlLaw as ControlLaw
from mindyn.motions.simulation.controllers import ProportionalDerivative as ProportionalDerivative
from mindyn.motions.simulation.rollouts import compile_rollout as compile_rollout
from mindyn.motions.simulation.sensors import measure as measure
from mindyn.motions.step_plans.folders import read_test_logs as read_test_logs
from mindyn.motions.step_plans.folders import write_motions as write_motions
from mindyn.motions.step_plans.folders import write_test_logs as write_test_logs
from mindyn.motions.step_plans.plan import StepPlan as StepPlan
from mindyn.motions.step_plans.plan import load_plan as load_plan
from mindyn.motions.step_plans.simulated_tests import simulate_tests as simulate_tests
