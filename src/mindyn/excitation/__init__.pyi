# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.excitation.constraints import Box as Box
from mindyn.excitation.motion_design import MotionDesign as MotionDesign
from mindyn.excitation.volumes import Capsule as Capsule
from mindyn.excitation.volumes import volumes_of as volumes_of
