"""Writers of robots and estimates: TOML, URDF, MJCF, C, ROS 2 packages, Pinocchio models."""
