"""Numerical code that knows nothing about robots: arrays, filters, worker processes, compiled code."""
