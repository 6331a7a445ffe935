"""Predict the torque of logs, its error and the noise floor of its sensors."""
