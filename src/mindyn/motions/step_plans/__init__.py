"""Plan the motions of step-by-step tests."""
