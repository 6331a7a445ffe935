"""What reproduces the tables, figures and experiments of the five papers, and nothing that anything else needs."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
