# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.export.mujoco_sysid import sysid_start as sysid_start, SysidStart as SysidStart
