"""Reports about estimates as self-contained HTML files."""
