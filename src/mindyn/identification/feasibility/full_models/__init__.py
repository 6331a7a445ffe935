"""Complete base parameters to a full model of all links: one model, or random samples."""
