"""Reproduce tables, figures and experiments of the five papers; no other package depends on this one."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
