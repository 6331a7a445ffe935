"""Diagnose a fit: one module per subject finds what is wrong, each fault once."""
