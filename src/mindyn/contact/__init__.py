"""Contact detection and hand guiding with an identified model."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
