"""Motions that make the parameters visible: exciting trajectories and test plans."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
