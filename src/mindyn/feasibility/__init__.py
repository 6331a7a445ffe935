"""Physical feasibility of parameter values, projection onto feasible values, and physically consistent fits."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
