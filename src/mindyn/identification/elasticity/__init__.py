"""Elastic joints: compliance, damping and hysteresis from two encoders."""
