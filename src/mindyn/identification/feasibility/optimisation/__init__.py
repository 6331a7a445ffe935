"""Solve conic programs, which minimise a convex cost over parameters that satisfy conditions."""
