"""Robot files with meshes from the package example-robot-data, if it is installed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

FOLDER = "cmeel.prefix/share/example-robot-data/robots"
FILES = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "panda": "panda_description/urdf/panda.urdf",
    "xarm7": "xarm_description/urdf/xarm7.urdf",
}


def example_robot(name: str) -> Path:
    """Return the file of a robot; skip the test if it is not installed."""
    try:
        installed = metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    path = Path(str(installed.locate_file(FOLDER))) / FILES[name]
    if not path.is_file():
        pytest.skip(f"example-robot-data has no {FILES[name]}")
    return path
