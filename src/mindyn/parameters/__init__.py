"""Standard parameters, and the combinations of them that the dynamics depend on."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
