# The public names in the order of the work; `named_lazily` imports each when it is first used.
from mindyn.identification.log_drafts import draft_log as draft_log
from mindyn.identification.selection.choosing import Choice as Choice
