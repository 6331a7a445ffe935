"""Comparison of methods on recorded logs with held-out rows, and on simulated logs by Monte Carlo."""
