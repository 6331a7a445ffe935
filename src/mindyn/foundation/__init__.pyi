# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.foundation.algebra.poses import Pose as Pose
