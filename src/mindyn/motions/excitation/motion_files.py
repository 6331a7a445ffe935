"""Write a designed motion as files: samples, coefficients, a ROS 2 trajectory, URScript, a plot."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindyn.foundation.algebra.requirements import require_positive
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.atomic_files import make_folder, replace_folder_files, require_parent, write_file_atomically
from mindyn.foundation.errors import Code, ExportError
from mindyn.foundation.findings import Kind
from mindyn.foundation.pages.notebook_display import draw_page
from mindyn.foundation.processes.executors import require_polars_threads
from mindyn.motions.excitation.constraints import Box
from mindyn.motions.excitation.limits import BOUNDS
from mindyn.motions.excitation.motion_safety import SafetySettings
from mindyn.motions.excitation.motions import MAX_START_ERROR, Run
from mindyn.motions.excitation.volumes import Capsule
from mindyn.robots.meshes import Meshes

if TYPE_CHECKING:
    from mindyn.motions.excitation.motion_design import MotionDesign

ALL: Final = (
    *("motion.csv", "motion.json", "motion.yaml", "motion.html", "rehearsal.csv", "rehearsal.yaml", "limits.toml"),
)
"""Files that are written into a folder, including the rehearsal; arms of Universal Robots also get a program."""
SCRIPTS: Final = ("motion.script", "rehearsal.script")
REHEARSED: Final = {".csv": ".csv", ".yaml": ".yaml", ".script": ".script", ".json": ".csv"}
"""Suffixes of the rehearsal that is written in addition to a single file. The rehearsal of coefficients has samples."""
SERVOJ: Final = {"lookahead_time": 0.1, "gain": 300}
"""Arguments of URScript's servoj."""
UR_JOINTS: Final = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
"""Parts of the names of the joints of arms of Universal Robots."""


def write_design(design: MotionDesign, path: Path, rate_hz: float, meshes: Meshes | None = None) -> list[Path]:
    """See `MotionDesign.write`."""
    require_positive(rate_hz, "rate_hz")
    paths = files_at(path)
    run, slow = design.run(), design.run(design.rehearsal_speed)
    if path in paths:
        for file in paths:
            _write(design, run if file == path else slow, file, rate_hz, meshes)
        return paths
    make_folder(path)
    with replace_folder_files(path, (*ALL, *SCRIPTS)) as folder:
        for name in (*ALL, *(SCRIPTS if has_script(design) else [])):
            _write(design, slow if name.startswith("rehearsal") else run, folder / name, rate_hz, meshes)
        written = sorted(file.name for file in folder.iterdir())
    return [path / name for name in written]


def _write(design: MotionDesign, run: Run, path: Path, rate_hz: float, meshes: Meshes | None) -> None:
    is_page = path.suffix == ".html"
    content = draw_page("motion_page", design, meshes).html if is_page else _CONTENTS[path.suffix](design, run, rate_hz)
    write_file_atomically(path, content)


def has_script(design: MotionDesign) -> bool:
    """Return whether a URScript can move the arm: it is an arm of Universal Robots by its name or the names of its
    joints.
    """
    joints = design.robot.primary_joints
    is_named = re.match(r"ur\d+e?(?![a-z0-9])", design.robot.name.lower()) is not None
    has_names = all(part in joint.name for part, joint in zip(UR_JOINTS, joints, strict=False))
    return [joint.kind for joint in joints] == ["revolute"] * 6 and (is_named or has_names)


def files_at(path: Path) -> list[Path]:
    """Return the files that are written for a path: the named file and its rehearsal, or all files of a folder."""
    if path.suffix and not path.is_dir():
        known = (*_CONTENTS, ".html")
        if path.suffix not in known:
            raise ExportError(
                f"{path.name!r}: a motion is written as {', '.join(known)}",
                hint="to write into a folder whose name has a dot, create it first",
                code=Code.UNSUPPORTED,
                subject=path.suffix,
            )
        require_parent(path)
        suffix = REHEARSED.get(path.suffix)
        return [path] if suffix is None else [path, path.with_name(f"{path.stem}-rehearsal{suffix}")]
    if path.exists() and not path.is_dir():
        raise ExportError(f"'{path}' is a file; a folder is needed for all of a motion's files", subject=path)
    return [path / name for name in ALL]


def checked_lines(design: MotionDesign, run: Run) -> list[str]:
    """Return what was checked, for the comments of a file: the headline, the smallest distances and the limits."""
    first = ", ".join(f"{name} = {q:.4f}" for name, q in zip(run.joints, run.derivative(0.0, 0)[0], strict=True))
    lines = [
        design.headline,
        *([] if design.check is None else design.check.lines(run.speed)),
        f"this file contains {'the motion alone' if run.approach is None else 'approach, motion and return'}; begin "
        f"only if every joint is within {MAX_START_ERROR:g} rad or m of {first}",
    ]
    limits = design.limits
    for k, name in enumerate(design.robot.primary_names):
        lines.append(
            f"{name}: {limits.lower[k]:.4g} to {limits.upper[k]:.4g}, velocity {limits.velocity[k]:.4g}, "
            f"acceleration {limits.acceleration[k]:.4g}, effort {limits.effort[k]:.4g}"
        )
    return [" ".join(line.split()) for line in lines]


def limits_draft(design: MotionDesign) -> str:
    """Return a complete limits file of the design.

    Guessed limits are commented out, so that the user can correct them.
    """
    names, part = design.robot.primary_names, design.parts
    limits = design.limits.narrowed(1 / part.get("position", 1.0))
    guessed = {key for finding in design.findings if finding.kind is Kind.GUESSED_LIMIT for key in finding.details}
    lines = [f"# Limits of {design.robot.name}, for --limits. Lines that are commented out were guessed: correct them."]
    lines += [f"# {message}" for message in design.errors]
    for key in BOUNDS:
        values = getattr(limits, key) / part.get(key, 1.0)
        row = ", ".join(f"{json.dumps(name)} = {_round(value)}" for name, value in zip(names, values, strict=True))
        mark = "# " if key in guessed else ""
        lines.append(f"{mark}{key} = {{ {row} }}")
    noise = "" if not any(finding.kind is Kind.GUESSED_NOISE for finding in design.findings) else "# "
    lines += [f"torque_margin = {limits.torque_margin!r}", f"{noise}noise = {design.noise.tolist()!r}"]
    start = design.motion.start
    lines.append(f"{'' if design.is_start_given else '# '}start = {start.tolist()!r}")
    home = design.approach.places[0] if design.approach is not None else start
    lines.append(f"{'' if design.approach is not None else '# '}home = {home.tolist()!r}")
    if design.safety is not None:
        lines += _surroundings(design, design.safety)
    return "\n".join(lines) + "\n"


def _surroundings(design: MotionDesign, around: SafetySettings) -> list[str]:
    """Return TOML tables of everything that the motion was checked against; guesses are commented out."""
    lines, room = [], around.room
    if around.walls:
        is_guess = any(one.kind is Kind.GUESSED_FLOOR for one in design.findings)
        corners = [f"lower = {room.lower.tolist()!r}", f"upper = {room.upper.tolist()!r}"]
        has_walls = np.isfinite([*room.lower[:2], *room.upper]).any()
        rows = ["[workspace]", *(corners if has_walls else [f"floor = {float(room.lower[2])!r}"])]
        if has_walls and is_guess:
            rows.append(f"# the floor, z = {float(room.lower[2])!r} of lower, was guessed")
        lines += ["", *(f"{'# ' if is_guess and not has_walls else ''}{row}" for row in rows)]
    lines += [_solid_table("obstacles", one) for one in around.obstacles]
    lines += [_solid_table("tool", one) for one in around.tool]
    links = {link for one in design.findings if one.kind is Kind.GUESSED_VOLUME for link in one.joints}
    given = {*around.radius, *(one.link for one in around.capsules)}
    for one in design.capsules:
        if one.link in links | given and not any(one is other for other in around.tool):
            lines.append(_solid_table("capsules", one, "" if one.link in given else "# "))
    return lines


def _solid_table(key: str, solid: Capsule | Box, mark: str = "") -> str:
    """Return a box or a capsule as a TOML table. `mark` is put before each line, for example to comment it out."""
    names = ("lower", "upper") if isinstance(solid, Box) else ("a", "b")
    rows = [f"{name} = {getattr(solid, name).tolist()!r}" for name in names]
    if isinstance(solid, Capsule):
        link = [f"link = {json.dumps(solid.link)}"] if solid.link else []
        rows = [*link, *rows, f"radius = {solid.radius!r}"]
    return "\n" + "\n".join(f"{mark}{row}" for row in (f"[[{key}]]", *rows))


def _round(value: float) -> str:
    """Return a TOML float of 12 digits: fractions of limits are multiplied and divided again."""
    return repr(float(f"{value:.12g}"))


def coefficients_of(design: MotionDesign) -> dict[str, Any]:
    """Return the family, the start and the coefficients in types that JSON can store; together they determine q(t)."""
    motion = design.motion
    sines, cosines = np.split(motion.coefficients, 2)
    return {
        "joints": list(design.robot.primary_names),
        "seconds": motion.seconds,
        "start": motion.start.tolist(),
        "family": motion.family.to_dict(),
        "coefficients": motion.coefficients.tolist(),
        "approach": None if design.approach is None else design.approach.to_dict(),
        "period_s": motion.family.period(motion.seconds),
        "sines": sines.tolist(),
        "cosines": cosines.tolist(),
    }


def format_samples(joints: Sequence[str], t: Array, signals: Mapping[str, Array], comments: Iterable[str] = ()) -> str:
    """Return a CSV table of the time (N,) and of signals (N, n) of the joints, such as "position", after comments."""
    import polars

    require_polars_threads()
    columns = {"time": t}
    for signal, values in signals.items():
        columns |= {f"{name}.{signal}": values[:, k] for k, name in enumerate(joints)}
    # Without commas: readers of logs take a last comment with as many cells as the first row for the header.
    head = "".join(f"# {' '.join(line.replace(',', ';').split())}\n" for line in comments)
    return head + polars.DataFrame(columns).write_csv()


def _csv(design: MotionDesign, run: Run, rate_hz: float) -> str:
    q, qd, qdd, t = run.sample(rate_hz)
    signals = {"position": q, "velocity": qd, "acceleration": qdd}
    return format_samples(run.joints, t, signals, checked_lines(design, run))


def _yaml(design: MotionDesign, run: Run, rate_hz: float) -> str:
    """Return trajectory_msgs/msg/JointTrajectory, with one flow-style point per line."""
    q, qd, qdd, t = run.sample(rate_hz)
    lines = [
        "# trajectory_msgs/msg/JointTrajectory",
        *(f"# {line}" for line in checked_lines(design, run)),
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
    return "\n".join(lines) + "\n"


def _floats(values: Array) -> str:
    """Return a YAML list of floats with a decimal point, because YAML 1.1 reads 1e-05 as a string."""
    texts = (repr(value) for value in values.tolist())
    return f"[{', '.join(text if '.' in text else text.replace('e', '.0e') for text in texts)}]"


def _script(design: MotionDesign, run: Run, rate_hz: float) -> str:
    """Return URScript that stops unless the robot is at the first position, and then calls servoj in each control step.

    The script never moves the robot to the first position, because only the motion itself, with its approach, was
    checked.
    """
    if not has_script(design):
        raise ExportError(
            f"URScript is for arms of Universal Robots; robot {design.robot.name!r} does not have their six joints",
            hint="write .csv, .json or .yaml, and play it with the controller of your robot",
            code=Code.UNSUPPORTED,
            subject=design.robot.name,
        )
    q, _, _, _ = run.sample(rate_hz)
    settings = ", ".join(f"{name}={value}" for name, value in SERVOJ.items())
    lines = [
        f"# {design.robot.name}: {run.seconds:.3f} s at {rate_hz:g} Hz, from rest to rest",
        f"# joints {', '.join(run.joints)}, rad",
        f"# servoj follows at its own rate: run the controller at {rate_hz:g} Hz (UR CB: 125, e-Series: 500)",
        *(f"# {line}" for line in checked_lines(design, run)),
        "def mindyn_motion():",
        f"  first = [{_numbers(q[0])}]",
        "  actual = get_actual_joint_positions()",
        "  joint = 0",
        "  while joint < 6:",
        f"    if norm(actual[joint] - first[joint]) > {MAX_START_ERROR:g}:",
        '      popup("The robot is not at the first position. Move it there on a path that you checked.", '
        'title="mindyn", error=True, blocking=True)',
        "      halt",
        "    end",
        "    joint = joint + 1",
        "  end",
        *(f"  servoj([{_numbers(row)}], t={1 / rate_hz:.9g}, {settings})" for row in q),
        "  stopj(1.0)",
        "end",
        "mindyn_motion()",
    ]
    return "\n".join(lines) + "\n"


def _numbers(values: Array) -> str:
    return ", ".join(f"{value:.9f}" for value in values)


_CONTENTS: Final[Mapping[str, Callable[[MotionDesign, Run, float], str]]] = {
    ".csv": _csv,
    ".json": lambda design, run, rate_hz: json.dumps(design.to_dict(), indent=1) + "\n",  # noqa: ARG005 - see above
    ".yaml": _yaml,
    ".script": _script,
    ".toml": lambda design, run, rate_hz: limits_draft(design),  # noqa: ARG005 - as above
}
