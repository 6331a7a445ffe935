# The public names in the order of the work; `import_lazily` imports each when it is first used.
from mindyn.papers.yoshida_robot import yoshida_puma as yoshida_puma
