"""Motions that make the parameters visible: exciting trajectories and test plans."""
