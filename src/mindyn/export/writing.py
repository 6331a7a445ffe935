"""Writing whole files or none, and what every writer of a robot asks first."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from mindyn.errors import MindynError
from mindyn.robots.parts import Drive
from mindyn.robots.robot import Robot


class ExportError(MindynError):
    """A file format cannot say what the robot is, or the robot is not physical."""


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file under a temporary name beside `path`, then move it there."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ExportError(f"there is no folder {str(target.parent)!r} to write {target.name} into")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def written(values: ArrayLike) -> str:
    """Numbers as XML attributes hold them, each with the digits that give it back."""
    return " ".join(repr(float(value) + 0.0) for value in np.ravel(values))


def require_exportable(robot: Robot, file_format: str, lost: list[str], *, force: bool) -> None:
    """Refuse, unless forced, what the format would lose and links that no body can be."""
    if force:
        return
    robot.phi  # noqa: B018 - raises the error that names the links without parameters
    impossible = [f"{name} ({verdict.reason})" for name, verdict in robot.consistency().items() if not verdict.possible]
    if impossible:
        raise ExportError(
            f"links of {robot.name!r} are not physically consistent: {'; '.join(impossible)}",
            hint="force=True writes them as they are",
        )
    if lost:
        raise ExportError(
            f"{file_format} cannot express: {'; '.join(lost)}", hint="force=True leaves them out, TOML keeps everything"
        )


def losses(robot: Robot, *, armature: bool) -> list[str]:
    """What a format with joint-side damping and friction alone (and armature) cannot say of a robot."""
    lost = [f"loop {loop.name!r}" for loop in robot.loops]
    for drive in robot.drives:
        if drive.coupling and (drive.rotor_inertia or (drive.side == "motor" and (drive.viscous or drive.coulomb))):
            lost.append(f"the coupling of the drive of {drive.joint!r}")
        if drive.offset:
            lost.append(f"the torque offset of the drive of {drive.joint!r}")
        if drive.rotor_inertia and not armature:
            lost.append(f"the rotor inertia of the drive of {drive.joint!r}")
    return lost


def joint_side(drive: Drive) -> tuple[float, float, float]:
    """Armature, damping and dry friction that a drive shows at its own joint."""
    ratio = drive.ratio if drive.side == "motor" else 1.0
    return drive.ratio**2 * drive.rotor_inertia, ratio**2 * drive.viscous, abs(ratio) * drive.coulomb
