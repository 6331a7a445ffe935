# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.excitation.motion_design import MotionDesign as MotionDesign
from mindyn.excitation.volumes import volumes_of as volumes_of
from mindyn.excitation.step_plan import StepPlan as StepPlan, load_plan as load_plan
from mindyn.excitation.step_files import (
    write_motions as write_motions,
    write_test_logs as write_test_logs,
    read_test_logs as read_test_logs,
)
from mindyn.excitation.step_simulation import simulate_tests as simulate_tests
