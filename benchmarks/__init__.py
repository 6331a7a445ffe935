"""Measurements by subject; run one from the root of the repository: `python -m benchmarks.kernels.joints`."""
