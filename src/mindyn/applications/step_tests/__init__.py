"""Step-by-step tests: plan them, simulate or read their logs, identify a few parameters from each, and check them."""
