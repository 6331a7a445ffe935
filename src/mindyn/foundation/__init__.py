"""Files, errors, findings, algebra and pages: what every other package builds on."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
