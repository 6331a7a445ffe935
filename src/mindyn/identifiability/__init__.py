"""Which parameters can be told apart: every base set by name, the numeric methods, reduction."""
