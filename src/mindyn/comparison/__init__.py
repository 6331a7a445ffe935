"""Methods side by side on recorded logs: sets with their splits, methods, held-out errors, one page."""
