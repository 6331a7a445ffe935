"""Robots that another program simulates: their logs test diagnoses without our own equations."""
