"""Numerical code that knows nothing about robots: products, filters, threads, compiled code."""
