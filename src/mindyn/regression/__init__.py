"""Streaming regression: R factors per joint, information, what the data can tell."""
