"""Rotations, poses and the representations of a rigid body's inertia, in NumPy."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
