"""Check whether values are positive definite, physically consistent or plausible."""
