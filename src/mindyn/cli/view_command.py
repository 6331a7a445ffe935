"""`mindyn view`: show a robot in space, alone, with a motion or with a log, on one page."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, load_and_hold, require_companion, with_robot_options
from mindyn.cli.choices import SERVO_FILE
from mindyn.cli.limits_file import LimitsFile, read_limits_file
from mindyn.cli.output_files import HTML_ENDINGS, require_output_file
from mindyn.cli.printing import print_json, print_notes, print_status
from mindyn.cli.runs import load_run_estimate, read_logs, read_run_record
from mindyn.foundation.atomic_files import locate_beside
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.hints import Command
from mindyn.foundation.safe_reading import read_json

if TYPE_CHECKING:
    from mindyn.identification.estimators.estimate import Estimate
    from mindyn.logs.log import Log
    from mindyn.motions.excitation.motion_safety import SafetySettings
    from mindyn.motions.excitation.motions import Run
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.robot import Robot

MOTION_FILE: Final = "motion.json"
RUN_FILES: Final = ("estimate.json", SERVO_FILE)
LIMITS_FILE: Final = "limits.toml"
"""File in the folder of a motion that describes the surroundings of the robot."""


@with_robot_options
def view(
    robot: Annotated[str, ROBOT_ARGUMENT],
    shown: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MOTION | LOG | RUN]",
            help="Folder of `mindyn excite --out` or `mindyn identify --out`, one of their files, or a log.",
        ),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Log to show with a run; default: its held-out log, or its first log.")
    ] = None,
    limits: Annotated[
        Path | None,
        typer.Option(help=".toml file with workspace, obstacles, capsules and tool; default: that of the motion."),
    ] = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("view.html"),
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
    *,
    options: RobotOptions,
) -> None:
    """Show a robot in space, alone, with a motion, or with a log and the torque of a model, on one page."""
    from mindyn.output.view.write_view import write_view
    from mindyn.robots.meshes import read_meshes

    if any(map(_is_in(Path(robot)), RUN_FILES)):
        raise InputError(
            f"'{robot}' is a run of `mindyn identify`, not a robot",
            hint="name the robot first",
            command=Command("view", "arm.urdf", robot),
            code=Code.WRONG_TYPE,
            subject=robot,
        )
    require_output_file(out, HTML_ENDINGS)
    kind = "robot" if shown is None else _kind_of(shown)
    require_companion("--log", log, "a run", kind == "run")
    motion, recorded, estimate = None, None, None
    loaded = options.load(robot)
    if kind == "motion":
        assert shown is not None
        folder, motion = _read_motion(shown)
        if motion.joints != loaded.primary_names:
            loaded, options, held = load_and_hold(options, robot, ())
            print_notes(held)
        limits = folder / LIMITS_FILE if limits is None and (folder / LIMITS_FILE).is_file() else limits
    elif kind == "run":
        assert shown is not None
        estimate, recorded = _read_run(shown, log)
    elif kind == "log":
        assert shown is not None
        recorded = read_logs([shown], loaded)[0]
    drawn = read_meshes(robot, loaded)
    print_notes(drawn.findings)
    if estimate is not None:
        _require_same_joints(loaded, estimate.robot, str(shown))
    surroundings = _read_surroundings(limits, loaded)
    write_view(
        loaded, out, motion=motion, log=recorded, estimate=estimate, safety=surroundings, meshes=drawn
    )  # fmt: skip
    print_status(f"wrote {out}" + (": open it in a browser" if no_open else ""))
    if as_json:
        print_json({"view": str(out), "shows": kind, "joints": list(loaded.primary_names)})
    if not no_open and not webbrowser.open(out.absolute().as_uri()):
        print_status("no browser could be opened; open the file yourself")


def _kind_of(shown: Path) -> str:
    """Return "motion", "run" or "log" for a folder or file; a folder can also be a log."""
    if not shown.exists():
        raise InputError(
            f"'{shown}' does not exist",
            hint="give the folder of `mindyn excite --out` or of `mindyn identify --out`, or a log",
            code=Code.MISSING_FILE,
            subject=shown,
        )
    if shown.is_dir():
        return "motion" if (shown / MOTION_FILE).is_file() else "run" if any(map(_is_in(shown), RUN_FILES)) else "log"
    if shown.suffix.lower() != ".json":
        return "log"
    return "motion" if "coefficients" in read_json(shown, "motion or estimate", InputError) else "run"


def _is_in(folder: Path) -> Callable[[str], bool]:
    return lambda name: (folder / name).is_file()


def _read_motion(shown: Path) -> tuple[Path, Run]:
    """Return the folder of a motion and its run."""
    from mindyn.motions.excitation.motions import run_of

    path = shown / MOTION_FILE if shown.is_dir() else shown
    return path.parent, run_of(read_json(path, "motion", InputError), str(path))


def _read_run(shown: Path, log: Path | None) -> tuple[Estimate, Log | None]:
    """Return the estimate of a run, and the given log, its held-out one or its first one."""
    estimate = load_run_estimate(shown)
    if log is not None:
        return estimate, read_logs([log], estimate.robot, estimate.settings.conditioning)[0]
    from mindyn.logs.log import SourceFile, group_sources
    from mindyn.robots.loading import ROBOT_FORMATS

    record = read_run_record(shown)
    folder = shown if shown.is_dir() else shown.parent
    for key in ("held_out", "inputs"):
        paths = [locate_beside(str(entry["path"]), folder) for entry in _entries(record, key) if entry.get("path")]
        for path in group_sources([SourceFile(path, "") for path in paths]):
            if Path(path).exists() and Path(path).suffix.lower() not in ROBOT_FORMATS:
                return estimate, read_logs([Path(path)], estimate.robot, estimate.settings.conditioning)[0]
    raise InputError(
        f"no log of the run '{shown}' is found",
        hint="pass one with --log",
        code=Code.MISSING_FILE,
        subject=shown,
    )


def _entries(record: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the files that the record of a run lists."""
    listed = record.get(key)
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def _require_same_joints(robot: Robot, estimated: Robot, run: str) -> None:
    """Raise `InputError` if a run is of another robot."""
    if robot.primary_names != estimated.primary_names:
        raise InputError(
            f"the run {run!r} is of the joints {', '.join(estimated.primary_names)}; "
            f"{robot.name!r} has {', '.join(robot.primary_names)}",
            hint="give the robot of the run, with the same --lock, --root and --tip",
            code=Code.DISAGREEMENT,
            subject=run,
        )


def _read_surroundings(path: Path | None, robot: Robot) -> SafetySettings | None:
    """Return what a limits file states about the surroundings; None without a file."""
    from mindyn.motions.excitation.motion_safety import SafetySettings

    if path is None:
        return None
    given: LimitsFile = read_limits_file(path, robot)
    return SafetySettings(**given.surroundings)
