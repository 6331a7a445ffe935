"""Open benchmark of identification methods on recorded logs: sets, recipes, methods and records."""
