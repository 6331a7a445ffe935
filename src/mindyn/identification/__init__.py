"""The one verb: settings chosen inside the training rows, equations, fit, judgement."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
