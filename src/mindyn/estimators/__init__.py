"""Estimators with one API and one result, and the road from logs to an estimate."""
