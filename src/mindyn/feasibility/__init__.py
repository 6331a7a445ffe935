"""Whether parameter values are physically possible, and their mending."""
