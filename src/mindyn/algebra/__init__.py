"""Rotations, poses and the forms of a rigid body's inertia, in NumPy."""
