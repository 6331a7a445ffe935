# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.fleet.fleet import study_fleet as study_fleet
