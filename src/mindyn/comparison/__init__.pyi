# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.comparison.log_sets import read_sets as read_sets
from mindyn.comparison.log_comparison import compare_on_logs as compare_on_logs
