"""Motions that make the parameters visible: exciting trajectories and test plans."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
