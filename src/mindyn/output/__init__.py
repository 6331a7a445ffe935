"""Files and pages of a robot or an estimate."""
