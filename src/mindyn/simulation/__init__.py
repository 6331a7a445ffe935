"""Forward dynamics in time: one accurate simulation, thousands of rollouts at once, and what sensors would see."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
