"""HTML pages with plots and 3D views in one file that opens from disk and loads nothing."""
