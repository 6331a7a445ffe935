# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.identifiability.reduction import reduce_model as reduce_model
from mindyn.identifiability.essential_space import constraint_matrix as constraint_matrix
