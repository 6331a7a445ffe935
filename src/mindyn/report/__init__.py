"""One self-contained HTML file that says whether a model is good, and why; computes nothing of physics."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
