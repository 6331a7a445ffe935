"""Excitation trajectories and test plans: motions that determine the parameters."""
