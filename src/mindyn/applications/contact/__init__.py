"""Contact detection with an identified model."""
