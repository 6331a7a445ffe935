# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.loads.consistent_gains import consistent_drive_gains as consistent_drive_gains
