"""Writing robots: TOML, URDF, MJCF."""
