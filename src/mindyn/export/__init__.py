"""Writing robots and what is known of them: TOML, URDF, MJCF, MAT, ROS 2 packages, Pinocchio models."""
