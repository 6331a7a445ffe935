"""Measured motion: logs with names and units, and the samples that regression uses."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
