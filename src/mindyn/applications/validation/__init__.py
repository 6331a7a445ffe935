"""Accuracy of an estimate on logs that were not used in the fit."""
