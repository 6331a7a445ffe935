"""What reproduces the tables, figures and experiments of the five papers, and nothing that anything else needs."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
