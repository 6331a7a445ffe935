"""Physical feasibility of parameter values, projection onto feasible values, and physically consistent fits."""
