"""One self-contained HTML file that says whether a model is good, and why; computes nothing of physics."""
