"""Rotations, poses and the representations of a rigid body's inertia, in NumPy."""
