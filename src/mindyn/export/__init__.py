"""Writers of robots and estimates: TOML, URDF, MJCF, MAT, C, ROS 2 packages, Pinocchio models."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
