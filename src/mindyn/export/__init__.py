"""Writers of robots and estimates: TOML, URDF, MJCF, MAT, C, ROS 2 packages, Pinocchio models."""
