"""Forward dynamics in time: accurate simulations, thousands of rollouts at once, and simulated sensors."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
