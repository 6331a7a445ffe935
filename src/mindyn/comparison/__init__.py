"""Methods compared on recorded logs with held-out rows, and on simulated ones by Monte Carlo."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
