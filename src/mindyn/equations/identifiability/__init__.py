"""Identifiable parameters: all base sets by name, numeric methods, and model reduction."""
