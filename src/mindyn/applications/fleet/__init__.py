"""Fleets of robots of one type: estimates of every robot, and robots that differ from the type or drift."""
