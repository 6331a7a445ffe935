"""Rotations, poses and the forms of a rigid body's inertia, in NumPy."""

from mindyn.lazy_names import named_lazily

__all__, __getattr__ = named_lazily(__name__, __file__)
