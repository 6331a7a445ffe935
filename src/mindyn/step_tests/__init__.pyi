# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.step_tests.plan import StepPlan as StepPlan, load_plan as load_plan
from mindyn.step_tests.plan import (
    write_motions as write_motions,
    write_test_logs as write_test_logs,
    read_test_logs as read_test_logs,
)
from mindyn.step_tests.planner import simulate_tests as simulate_tests
from mindyn.step_tests.checks import check_steps as check_steps, StepChecks as StepChecks, StepCheck as StepCheck
