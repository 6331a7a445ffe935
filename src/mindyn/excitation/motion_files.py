"""A designed motion as files: samples, coefficients, a C header, a ROS 2 trajectory, a plot."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import ExportError, InputError
from mindyn.excitation.c_header import c_header
from mindyn.excitation.fourier import Fourier
from mindyn.excitation.motion_plot import html_plot
from mindyn.excitation.splines import BSpline
from mindyn.files import make_folder, replacing, write_whole

if TYPE_CHECKING:
    from mindyn.excitation.motion_design import MotionDesign

ALL: Final = ("motion.csv", "motion.parquet", "motion.npz", "motion.json", "motion.h", "motion.yaml", "motion.html")
"""What a folder gets."""


def write_design(design: MotionDesign, path: Path, rate_hz: float) -> list[Path]:
    """See `MotionDesign.write`."""
    if not np.isfinite(rate_hz) or rate_hz <= 0:
        raise InputError(f"rate_hz must be positive, got {rate_hz!r}")
    made = files_at(path)
    if made == [path]:
        _WRITERS[path.suffix](design, path, rate_hz)
        return made
    make_folder(path)
    with replacing(path, ALL) as folder:
        for name in ALL:
            _WRITERS[Path(name).suffix](design, folder / name, rate_hz)
    return made


def files_at(path: Path) -> list[Path]:
    """The files that a design is written as: the one named, or all of them in a folder."""
    if path.suffix and not path.is_dir():
        if path.suffix not in _WRITERS:
            raise ExportError(
                f"{path.name!r}: a motion is written as {', '.join(_WRITERS)}",
                hint="a folder whose name has a dot must be there already",
            )
        if not path.parent.is_dir():
            raise ExportError(f"there is no folder {str(path.parent)!r} to write {path.name} into")
        return [path]
    if path.exists() and not path.is_dir():
        raise ExportError(f"{str(path)!r} is a file; a folder is needed for all of a motion's files")
    return [path / name for name in ALL]


def coefficients_of(design: MotionDesign) -> dict[str, Any]:
    """Family, start and coefficients as JSON can hold them; q(t) follows from them alone."""
    motion = design.motion
    made = {
        "joints": list(design.robot.primary_names),
        "seconds": motion.seconds,
        "start": motion.start.tolist(),
        "family": motion.family.to_dict(),
    }
    if isinstance(motion.family, Fourier):
        sines, cosines = motion.family.amplitudes(motion.coefficients)
        made["period_s"] = motion.family.period(motion.seconds)
        made |= {"sines": sines.tolist(), "cosines": cosines.tolist()}
    elif isinstance(motion.family, BSpline):
        spline = motion.family.spline(motion.coefficients, motion.seconds)
        made |= {"knots": spline.t.tolist(), "control_points": (spline.c + motion.start).tolist()}
    else:
        made["coefficients"] = motion.coefficients.tolist()
    return made


def _columns(design: MotionDesign, rate_hz: float) -> dict[str, Any]:
    q, qd, qdd, t = design.sample(rate_hz)
    columns: dict[str, Any] = {"time": t}
    for signal, values in (("position", q), ("velocity", qd), ("acceleration", qdd)):
        columns |= {f"{name}.{signal}": values[:, k] for k, name in enumerate(design.robot.primary_names)}
    return columns


def _write_csv(design: MotionDesign, path: Path, rate_hz: float) -> None:
    import polars

    write_whole(path, polars.DataFrame(_columns(design, rate_hz)).write_csv())


def _write_parquet(design: MotionDesign, path: Path, rate_hz: float) -> None:
    import polars

    content = BytesIO()
    polars.DataFrame(_columns(design, rate_hz)).write_parquet(content)
    write_whole(path, content.getvalue())


def _write_npz(design: MotionDesign, path: Path, rate_hz: float) -> None:
    q, qd, qdd, t = design.sample(rate_hz)
    content = BytesIO()
    names = np.array(design.robot.primary_names)
    np.savez(content, time=t, position=q, velocity=qd, acceleration=qdd, joint_names=names)
    write_whole(path, content.getvalue())


def _write_json(design: MotionDesign, path: Path, rate_hz: float) -> None:  # noqa: ARG001 - one signature for all
    write_whole(path, json.dumps(design.to_dict(), indent=1) + "\n")


def _write_header(design: MotionDesign, path: Path, rate_hz: float) -> None:  # noqa: ARG001
    write_whole(path, c_header(design.motion, design.robot))


def _write_yaml(design: MotionDesign, path: Path, rate_hz: float) -> None:
    """trajectory_msgs/msg/JointTrajectory, one flow-style point on each line."""
    q, qd, qdd, t = design.sample(rate_hz)
    lines = [
        "# trajectory_msgs/msg/JointTrajectory",
        'header: {stamp: {sec: 0, nanosec: 0}, frame_id: ""}',
        f"joint_names: {json.dumps(list(design.robot.primary_names))}",
        "points:",
    ]
    for row, time in enumerate(t):
        seconds, nanoseconds = divmod(round(float(time) * 10**9), 10**9)
        lines.append(
            f"- {{positions: {_floats(q[row])}, velocities: {_floats(qd[row])}, accelerations: {_floats(qdd[row])}, "
            f"time_from_start: {{sec: {seconds}, nanosec: {nanoseconds}}}}}"
        )
    write_whole(path, "\n".join(lines) + "\n")


def _floats(values: Array) -> str:
    """A YAML list; always with a point, since YAML 1.1 takes 1e-05 for a word."""
    texts = (repr(value) for value in values.tolist())
    return f"[{', '.join(text if '.' in text else text.replace('e', '.0e') for text in texts)}]"


def _write_html(design: MotionDesign, path: Path, rate_hz: float) -> None:  # noqa: ARG001
    write_whole(path, html_plot(design))


_WRITERS: Final[Mapping[str, Callable[[MotionDesign, Path, float], None]]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".npz": _write_npz,
    ".json": _write_json,
    ".h": _write_header,
    ".yaml": _write_yaml,
    ".html": _write_html,
}
