"""Estimators with a common protocol and result: from rows of equations to an `Estimate`."""
