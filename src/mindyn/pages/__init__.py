"""Pages: HTML, plots and drawings in one file that opens from disk and loads nothing."""
