"""Dynamics algorithms over CasADi SX, for any serial or tree robot."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
