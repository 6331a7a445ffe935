# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.logs.conditioning import AS_LOGGED as AS_LOGGED
from mindyn.logs.formats.array_table import ArrayTable as ArrayTable
from mindyn.logs.formats.formats import LOG_FORMATS as LOG_FORMATS
from mindyn.logs.pipeline import condition_stream as condition_stream
from mindyn.logs.servos import log_from_targets as log_from_targets
from mindyn.logs.wrench_log import WrenchLog as WrenchLog
from mindyn.logs.wrench_log import read_wrench_log as read_wrench_log
