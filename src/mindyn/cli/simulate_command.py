"""`mindyn simulate`: simulate a robot under computed-torque control and write the log of its sensors."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, option_group, with_robot_options
from mindyn.cli.next_step import format_robot_options, print_next_command
from mindyn.cli.output_files import SIMULATED, require_simulated_log
from mindyn.cli.printing import print_json, print_status
from mindyn.foundation.errors import Code, ExportError, InputError, list_names, pluralise
from mindyn.foundation.hints import Command
from mindyn.foundation.safe_reading import read_json, read_settings_toml
from mindyn.foundation.schemas import ANY_NUMBER, ANY_TEXT, require_valid, table_schema

if TYPE_CHECKING:
    from mindyn.motions.simulation.controllers import ReferenceRows, SineMotion
    from mindyn.motions.simulation.results import Measurement
    from mindyn.motions.simulation.sensors import Sensors
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.robot import Robot


def parse_readings(
    torque_noise: Annotated[
        float | None, typer.Option(help="Standard deviation of the torque sensor, N m or N; see --noise-at.")
    ] = None,
    position_noise: Annotated[
        float | None, typer.Option(help="Standard deviation of the position sensor, rad or m; see --noise-at.")
    ] = None,
    noise_side: Annotated[
        str | None,
        typer.Option("--noise-at", help="motor or joint: side of the noise standard deviations; required with gears."),
    ] = None,
    counts_per_revolution: Annotated[
        float | None, typer.Option("--counts", help="Encoder counts per motor turn, or per joint turn without drives.")
    ] = None,
) -> dict[str, Any]:
    """Return the settings of `Sensors` that a command line gives."""
    return {name: value for name, value in locals().items() if value is not None}


@with_robot_options
@option_group("readings", parse_readings)
def simulate(
    robot: Annotated[str, ROBOT_ARGUMENT],
    out: Annotated[Path, typer.Option(help="Log to write, .csv or .parquet; a sidecar .toml is written with it.")],
    motion: Annotated[
        Path | None, typer.Option(help="Folder of `mindyn excite --out`, or its motion.json; default: sines.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Duration, s; default: the whole motion, or 10 s of sines.")
    ] = None,
    rate_hz: Annotated[float | None, typer.Option(help="Sample rate of the log, Hz; default: 200.")] = None,
    drives: Annotated[
        Path | None,
        typer.Option(help=".toml file with drive tables, for robot files without drives; as in `mindyn identify`."),
    ] = None,
    without_drives: Annotated[
        bool,
        typer.Option("--without-drives", help="Simulate without the rotor inertia and friction of the robot file."),
    ] = False,
    sensors: Annotated[
        Path | None,
        typer.Option(help=".toml file with all settings of the sensors; the options below override it."),
    ] = None,
    *,
    readings: dict[str, Any],
    seed: Annotated[int, typer.Option(help="Seed of noise and motion.")] = 0,
    as_json: Annotated[bool, JSON_OPTION] = False,
    options: RobotOptions,
) -> None:
    """Simulate a motion and write the log of its sensors."""
    import numpy as np

    from mindyn.motions.simulation.controllers import ComputedTorque, TabulatedReference
    from mindyn.motions.simulation.simulate import simulate as run_simulation
    from mindyn.robots.safe_robot_files import read_text
    from mindyn.robots.toml_format import read_drives

    if out.suffix not in (".csv", ".parquet"):
        raise InputError(
            f"--out must end with .csv or .parquet, got '{out}'",
            hint="such as --out run1.parquet",
            code=Code.INVALID_VALUE,
            subject=out,
        )
    if not out.parent.is_dir():
        raise ExportError(
            f"the folder {str(out.parent)!r} of --out does not exist",
            hint="create the folder first",
            code=Code.MISSING_FILE,
            subject=out.parent,
        )
    require_simulated_log(out)
    loaded = options.load(robot, () if drives is None else read_drives(read_text(drives)))
    with_drives = bool(loaded.drives) and not without_drives
    stated = readings if rate_hz is None else {**readings, "rate_hz": rate_hz}
    fitted = _build_sensors(sensors, stated, seed)
    _require_noise_side(loaded, fitted)
    reference, whole_s = _load_reference(loaded, motion, seed)
    lasts = whole_s if seconds is None else seconds
    start = reference.rows(np.zeros(1))
    followed = TabulatedReference(reference, min(lasts, whole_s))
    controller = ComputedTorque(loaded, followed, 100.0, 20.0, with_drives=with_drives)
    run = run_simulation(
        loaded, controller, seconds=lasts, q0=start[0][0], qd0=start[1][0], with_drives=with_drives, sensors=fitted
    )
    assert run.measured is not None
    write_measurement(run.measured, loaded, out)
    print_status(f"wrote {out}: {len(run.measured.t)} samples of {pluralise(len(run.measured.joint_names), 'joint')}")
    if as_json:
        joints = list(run.measured.joint_names)
        rows, rate = len(run.measured.t), fitted.rate_hz
        summary = {"log": str(out), "samples": rows, "rate_hz": rate, "joints": joints, "drives": with_drives}
        print_json(summary, indent=2)
    words = format_robot_options(options, drives)
    print_next_command("identify", robot, out, *words, "--hold-out", "0.3", "--out", out.with_suffix(""))


def _build_sensors(path: Path | None, stated: dict[str, Any], seed: int) -> Sensors:
    """Return the sensors of a file, overridden by the options."""
    from mindyn.motions.simulation.sensors import Sensors

    hint = "such as torque_noise = 0.01"
    table = {} if path is None else read_settings_toml(path, "file of sensors", InputError, hint)
    entries = {entry.name: ANY_TEXT if entry.name.endswith("side") else ANY_NUMBER for entry in fields(Sensors)}
    require_valid(table, table_schema({}, entries), "sensors", hint=hint)
    given: dict[str, Any] = {"rate_hz": 200.0, "seed": seed} | table | stated
    return Sensors(**given)


def _require_noise_side(robot: Robot, sensors: Sensors) -> None:
    """Raise `InputError` if the side of the noise is not given for a robot with gears."""
    geared = [drive.joint for drive in robot.drives if abs(drive.ratio) != 1 or drive.coupling]
    if sensors.noise_side is None and geared and (sensors.torque_noise or sensors.position_noise):
        largest = max(abs(drive.ratio) for drive in robot.drives)
        raise InputError(
            f"the side of the noise is not given, but {list_names(geared)} have gears: with a gear ratio of "
            f"{largest:g}, 0.3 N m at the motor are {0.3 * largest:g} N m at the joint",
            hint="pass --noise-at motor or --noise-at joint (noise_side in the file of --sensors)",
            code=Code.MISSING_VALUE,
            subject="noise_side",
        )


def _load_reference(robot: Robot, motion: Path | None, seed: int) -> tuple[ReferenceRows, float]:
    """Return the reference of the controller and its duration."""
    from mindyn.motions.excitation.motions import run_of

    if motion is None and robot.loops:
        raise InputError(
            f"robot {robot.name!r} has closed loops, and not every motion keeps them closed",
            hint="design a motion and pass it with --motion",
            command=Command("excite", "ROBOT", "--out", "motion"),
            code=Code.MISSING_VALUE,
            subject="--motion",
        )
    if motion is None:
        return make_sine_reference(robot, seed), 10.0
    path = motion / "motion.json" if motion.is_dir() else motion
    if not path.exists():
        raise InputError(
            f"the motion '{path}' does not exist",
            hint="write one",
            command=Command("excite", "ROBOT", "--out", motion),
            code=Code.MISSING_FILE,
            subject=path,
        )
    run = run_of(read_json(path, "motion", InputError), str(path))
    if run.joints != robot.primary_names:
        raise InputError(
            f"the motion of {path} has the joints {list_names(run.joints)}; "
            f"the robot has {list_names(robot.primary_names)}",
            hint="pass the robot, --lock, --root and --tip with which the motion was designed",
            code=Code.DISAGREEMENT,
            subject=path,
        )
    return run, run.seconds


def make_sine_reference(robot: Robot, seed: int) -> SineMotion:
    """Return a sine for every primary joint around the middle of its range, by default -1 to 1 rad or m."""
    import numpy as np

    from mindyn.motions.simulation.controllers import SineMotion
    from mindyn.robots.parts import position_range

    rng = np.random.default_rng(seed)
    joints = robot.primary_joints
    lower, upper = np.array([position_range(joint.limits, -1.0, 1.0) for joint in joints]).T
    frequency = 0.15 + 0.25 * rng.random(len(joints))
    return SineMotion((lower + upper) / 2, np.minimum((upper - lower) / 4, 0.8), frequency, np.zeros(len(joints)))


def write_measurement(measured: Measurement, robot: Robot, path: Path) -> None:
    """Write the log and its sidecar with columns by joint name, units and sides."""
    from mindyn.logs.log import write_log

    signals = {"position": measured.position, "torque": measured.torque}
    sides = {"position": measured.position_side, "torque": measured.torque_side}
    write_log(robot, measured.t, signals, path, sides, remark=SIMULATED)
