"""One self-contained HTML file about an estimate; computes nothing of its own."""
