# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.equations.identifiability.essential_space import constraint_matrix as constraint_matrix
from mindyn.equations.identifiability.reduction import reduce_model as reduce_model
from mindyn.equations.loop_closure import tree_state as tree_state
