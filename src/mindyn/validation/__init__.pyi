# The public names in the order of the work; `named_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.validation.validate import compare as compare, Verdict as Verdict
from mindyn.validation.trajectories import (
    simulated_against_measured as simulated_against_measured,
    Trajectories as Trajectories,
)
from mindyn.validation.step_checks import check_steps as check_steps, StepChecks as StepChecks, StepCheck as StepCheck
