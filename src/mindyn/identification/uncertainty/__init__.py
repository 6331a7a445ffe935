"""Quantify the uncertainty of an estimate: jackknife over blocks, systematic errors, dropped parameters."""
