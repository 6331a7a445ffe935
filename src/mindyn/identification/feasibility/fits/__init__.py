"""Fit physically consistent parameters to the equations of logs."""
