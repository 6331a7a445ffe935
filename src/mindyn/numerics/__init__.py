"""Numerical code that knows nothing about robots: products, filters, call lists, threads, compiled code."""
