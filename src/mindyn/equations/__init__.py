"""Every algorithm once, over CasADi SX, for any serial or tree robot."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
