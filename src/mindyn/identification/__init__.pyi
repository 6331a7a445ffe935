# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.identification.log_drafts import draft_log as draft_log
from mindyn.identification.methods import METHODS as METHODS
from mindyn.identification.selection.choose import Choice as Choice
