"""Move given values to the nearest feasible values."""
