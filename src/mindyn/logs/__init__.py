"""Measured motion: logs with names and units, and the samples that regression reads."""
