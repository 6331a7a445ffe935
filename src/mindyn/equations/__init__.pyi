# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.equations.identifiability.added_mass import DesignChange as DesignChange
from mindyn.equations.identifiability.added_mass import MassPlacement as MassPlacement
from mindyn.equations.identifiability.added_mass import evaluate_added_body as evaluate_added_body
from mindyn.equations.identifiability.added_mass import evaluate_point_mass as evaluate_point_mass
from mindyn.equations.identifiability.added_mass import place_point_mass as place_point_mass
from mindyn.equations.identifiability.decoupling import decoupling_rows as decoupling_rows
from mindyn.equations.identifiability.parameter_space import EssentialSpace as EssentialSpace
from mindyn.equations.identifiability.parameter_space import constraint_matrix as constraint_matrix
from mindyn.equations.identifiability.parameter_space import essential_space as essential_space
from mindyn.equations.identifiability.reduction import reduce_model as reduce_model
from mindyn.equations.loop_closure import tree_state as tree_state
