# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.parameters.lin import lin_base as lin_base
from mindyn.parameters.lin_parts import LinConstants as LinConstants
from mindyn.parameters.lin_parts import VaryingParts as VaryingParts
from mindyn.parameters.lin_parts import lin_constants as lin_constants
from mindyn.parameters.lin_parts import varying_parts as varying_parts
from mindyn.parameters.parameter import Parameter as Parameter
