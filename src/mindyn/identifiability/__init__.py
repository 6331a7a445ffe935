"""Which parameters can be told apart: every base set by name, the numeric methods, reduction."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
