"""Standard parameters, and the combinations of them that the dynamics depend on."""
