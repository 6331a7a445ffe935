"""The one verb: settings chosen inside the training rows, equations, fit, judgement."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
