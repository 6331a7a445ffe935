"""Payloads and drive gains from runs with and without a load."""
