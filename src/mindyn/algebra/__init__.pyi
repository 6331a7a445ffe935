# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.algebra.poses import Pose as Pose
