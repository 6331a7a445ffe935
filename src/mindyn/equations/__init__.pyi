# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.equations.loop_closure import tree_state as tree_state
