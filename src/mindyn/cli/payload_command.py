"""`mindyn payload`: identify a payload and print it in the formats of robot controllers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import degrees, floor, inf, log10
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mindyn.cli.arguments import JSON_OPTION, complete_from, option_group, require_companion, require_exclusive
from mindyn.cli.choices import CONTROLLER_NAMES, WrenchFrame
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.output_files import CONTROLLER_ENDINGS, require_output_file
from mindyn.cli.printing import print_findings, print_json, print_output, print_status, print_table
from mindyn.cli.runs import CALIBRATION_FILE, RUN_ARGUMENT, load_run_estimate, read_logs, require_held_out
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, ExportError, InputError, require_choice, unknown_name_error
from mindyn.foundation.findings import Kind, Severity
from mindyn.foundation.notation import LINK_PARAMETER_UNITS, LINK_PARAMETERS
from mindyn.foundation.safe_reading import read_json
from mindyn.foundation.schemas import POSITIVE_NUMBER, require_valid, table_schema

if TYPE_CHECKING:
    from mindyn.applications.payload.identify_payload import LoadCalibration
    from mindyn.applications.wrench import WrenchPayload
    from mindyn.identification.runs_with_loads import Payload
    from mindyn.robots.robot import Robot

LENGTH_DECIMALS: Final = 4
"""Fewest decimals of a length in m."""
MAX_DECIMALS: Final = 9
CALIBRATION_SCHEMA: Final = table_schema(
    {"factor": POSITIVE_NUMBER, "deviation": {"type": "number", "minimum": 0}},
    {"mass": POSITIVE_NUMBER, "log": {"type": "string"}},
)


@dataclass(frozen=True, slots=True)
class SensorOptions:
    """The options --wrench to --c: a log of a force/torque sensor, and what is known of the sensor."""

    wrench: Path | None
    robot: str | None
    wrench_frame: WrenchFrame | None
    estimate_rotation: bool
    c: Path | None


def parse_sensor_options(
    wrench: Annotated[
        Path | None, typer.Option(help="Log of a force/torque sensor that carries the payload, instead of RUN and LOG.")
    ] = None,
    robot: Annotated[str | None, typer.Option(help="Robot of the joint positions in the log of --wrench.")] = None,
    wrench_frame: Annotated[
        WrenchFrame | None, typer.Option(help="Axes of the readings of --wrench: sensor or world.")
    ] = None,
    estimate_rotation: Annotated[
        bool, typer.Option("--estimate-rotation", help="Also estimate the rotation of the sensor of --wrench.")
    ] = False,
    c: Annotated[
        Path | None, typer.Option("--c", help="C header to write, which removes weight and bias (.h).")
    ] = None,
) -> SensorOptions:
    """Return the options of the sensor that a command line gives. Raise if they are given without a log of it."""
    if wrench is None:
        given = {"--robot": robot, "--wrench-frame": wrench_frame, "--estimate-rotation": estimate_rotation, "--c": c}
        for option, value in given.items():
            require_companion(option, value, "--wrench", None)
    return SensorOptions(wrench, robot, wrench_frame, estimate_rotation, c)


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """The options --to, --out and --name: the controller for which the payload is written, and the file."""

    to: str | None
    out: Path | None
    name: str | None


def parse_controller_options(
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help=f"Write the payload for a controller instead of printing it: {', '.join(CONTROLLER_NAMES)}.",
            autocompletion=complete_from(CONTROLLER_NAMES),
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="File of --to; without it, the text is printed. Franka: .json for Desk."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the payload in the file of --to; for KUKA, the number of the tool.")
    ] = None,
) -> ControllerOptions:
    """Return the options of the file for a controller that a command line gives."""
    if to is not None:
        require_choice(to, CONTROLLER_NAMES, "--to")
    require_companion("--out", out, "--to", to)
    require_companion("--name", name, "--to", to)
    return ControllerOptions(to, out, name)


@option_group("sensor", parse_sensor_options)
@option_group("controller", parse_controller_options)
def payload(
    run: Annotated[Path | None, RUN_ARGUMENT] = None,
    log: Annotated[
        Path | None, typer.Argument(help="Log with the payload; a sidecar .toml describes its columns.")
    ] = None,
    *,
    sensor: SensorOptions,
    link: Annotated[
        str | None, typer.Option(help="Link that carries the payload, or frame of the sensor; default: the last link.")
    ] = None,
    frame: Annotated[
        str | None,
        typer.Option(help="Frame of that link, such as tool0, in which to print the payload for controllers."),
    ] = None,
    gain_deviation: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the torque scale of each joint; default: 0.07 for currents, otherwise 0.01."
        ),
    ] = None,
    calibrate: Annotated[
        float | None,
        typer.Option(
            help="Mass in kg of the weighed payload in this log. Its torque scale is written into the folder of the "
            "run, and used for other payloads."
        ),
    ] = None,
    controller: ControllerOptions,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Identify the payload in a log, from an estimate of the arm without payload or a force/torque sensor."""
    if controller.to is not None:
        require_exclusive({"--to": controller.to, "--json": as_json})
    if controller.out is not None:
        require_output_file(controller.out, CONTROLLER_ENDINGS, [] if run is None else [run / "estimate.json", run])

    from mindyn.applications.payload.identify_payload import calibrate_load
    from mindyn.applications.payload.identify_payload import identify_payload as payload_of
    from mindyn.applications.wrench import identify_payload_from_wrench
    from mindyn.logs.wrench_log import read_wrench_log
    from mindyn.robots.loading import load_robot

    if sensor.wrench is not None:
        require_exclusive({"--wrench": sensor.wrench, "RUN": run})
        arm = None if sensor.robot is None else load_robot(sensor.robot)
        frames = {} if sensor.wrench_frame is None else {"frame": sensor.wrench_frame}
        readings = read_wrench_log(sensor.wrench, arm, frames)
        print_status(f"read {sensor.wrench}: {len(readings)} rows")
        sensed = identify_payload_from_wrench(readings, arm, link, estimate_rotation=sensor.estimate_rotation)
        if controller.to is None:
            _print_wrench_payload(sensed, sensor.c, arm, as_json=as_json)
        else:
            _require_consistent_readings(sensed)
            _write_for_controller(sensed.load, controller.to, controller.out, controller.name)
        return
    if run is None or log is None:
        message = "payload needs RUN and LOG, or --wrench LOG"
        raise InputError(message, code=Code.MISSING_VALUE, subject="RUN" if run is None else "LOG")
    estimate = load_run_estimate(run)
    logs = read_logs([log], estimate.robot, estimate.settings.conditioning)
    hint = "pass a log with the payload; the estimate must be of the arm without it"
    require_held_out(estimate.data.sources, logs, hint, "its payload is part of the estimate")
    file = (run if run.is_dir() else run.parent) / CALIBRATION_FILE
    if calibrate is not None:
        calibration = calibrate_load(estimate, logs[0], calibrate, link=link)
        write_file_atomically(file, json.dumps({**asdict(calibration), "mass": calibrate, "log": str(log)}, indent=1))
        print_status(f"wrote {file}")
    known = _read_calibration(file)
    load = payload_of(estimate, logs[0], link=link, gain_deviation=gain_deviation, calibration=known)
    load_in_frame = _express_in_frame(estimate.robot, load, frame)
    print_findings(load.findings)
    if controller.to is not None:
        _write_for_controller(load_in_frame, controller.to, controller.out, controller.name)
        return
    if as_json:
        print_json(_payload_data(load, load_in_frame))
        return
    print_output(_describe_load(load))
    print_output(_describe_scale(load, known))
    print_output()
    if not load.is_feasible:
        print_output("No values for controllers.")
        return
    _print_parameters(load)
    _print_for_controllers(load, load_in_frame)


def _print_for_controllers(load: Payload, load_in_frame: Payload) -> None:
    if load.phi[0] <= 0 or "m" in load.unidentifiable:
        print_output()
        print_output("No values for controllers: the log does not determine the mass.")
        return
    print_output()
    print_output(
        f"In frame {load_in_frame.link} (axes and origin), inertia about the centre of mass; controllers expect the "
        "flange frame (--frame), --to writes their files:"
    )
    typer.echo(format_for_controllers(load_in_frame))  # not wrapped: these lines are copied
    if load.unidentifiable:
        print_status(
            "note: the log does not determine these parameters; physically consistent values are printed: "
            f"{', '.join(load.unidentifiable)}"
        )


def _read_calibration(file: Path) -> LoadCalibration | None:
    """Read the torque scale by a weighed load; None if the run was not calibrated."""
    from mindyn.applications.payload.identify_payload import LoadCalibration

    if not file.is_file():
        return None
    saved = read_json(file, "calibration of a run", InputError)
    require_valid(saved, CALIBRATION_SCHEMA, str(file))
    return LoadCalibration(float(saved["factor"]), float(saved["deviation"]))


def _describe_scale(load: Payload, calibration: LoadCalibration | None) -> str:
    """Describe the uncertainty of the torque scale that the interval contains."""
    from mindyn.applications.payload.identify_payload import GAIN_DEVIATION

    if calibration is not None:
        scale = f"calibrated with a weighed payload: its torques are multiplied by {calibration.factor:.4g}"
        return f"The arm is {scale}, with a standard deviation of {100 * load.gain_deviation:.2g} %."
    hint = "; one weighed payload reduces it (--calibrate KG)" if load.gain_deviation > GAIN_DEVIATION else ""
    return f"The intervals contain a standard deviation of {100 * load.gain_deviation:.2g} % of the torque scale{hint}."


def _express_in_frame(robot: Robot, load: Payload, frame: str | None) -> Payload:
    if frame is None:
        return load
    on_link = {candidate.name: candidate.pose for candidate in robot.frames if candidate.link == load.link}
    if frame not in on_link:
        raise unknown_name_error("frame", frame, on_link, f"link {load.link!r} has")
    return load.in_frame(on_link[frame], frame)


def _describe_load(load: Payload) -> str:
    """Describe mass and centre of mass, with the coordinates that are identifiable."""
    low, high = load.mass_interval
    mass = f"{load.mass:.4g} kg (95 % interval {low:.4g} to {high:.4g} kg)"
    if any(finding.kind is Kind.UNDETERMINED_MASS for finding in load.findings):
        return "No load is visible in this motion, or the motion does not determine its mass."
    if not load.is_feasible:
        return (
            f"The log contradicts the estimate: the payload would need a mass between {low:.4g} and {high:.4g} kg, "
            "with a centre of mass and an inertia that are not physically consistent. Check that the estimate is of "
            "this arm, with the same drive gains and zero positions."
        )
    if "m" in load.unidentifiable:
        return f"The log does not determine the mass of a payload: it is at most {max(load.mass, high):.2g} kg."
    coordinates = [
        f"{axis} {format_with_width(c, w)} m" if f"mc{axis}" not in load.unidentifiable else f"{axis} not identifiable"
        for axis, c, w in zip("xyz", load.centre, load.centre_half_widths, strict=True)
    ]
    return f"Payload mass {mass}; centre of mass in the frame of {load.link}: {', '.join(coordinates)}."


def format_with_width(value: float, width: float) -> str:
    """Format a value and the half-width of its interval with the same decimals, two significant digits of the width."""
    if not width:
        return f"{value:.{LENGTH_DECIMALS}f} (no interval)"
    digits = 1 - floor(log10(width)) if width < inf else 0
    decimals = min(max(digits, LENGTH_DECIMALS), MAX_DECIMALS)
    half_width = f"{width:.{decimals}f}"
    return f"{value:.{decimals}f} +- {half_width if float(half_width) else f'{width:.1g}'}"


def _print_parameters(load: Payload) -> None:
    rows: list[tuple[str, ...]] = [("parameter", "value", "95 % +-", "unit", "")]
    for k, (name, unit) in enumerate(zip(LINK_PARAMETERS, LINK_PARAMETER_UNITS, strict=True)):
        state = "not identifiable" if name in load.unidentifiable else ""
        value, width = ("-", "-") if state else (f"{load.phi[k]:.4g}", f"{load.half_widths[k]:.2g}")
        rows.append((name, value, width, unit, state))
    print_table(rows, styles=["dim" if row[-1] else "" for row in rows[1:]])


def format_for_controllers(load: Payload) -> str:
    """Return the payload in the formats of robot controllers and robot files."""
    from mindyn.output.export.controller_payloads import abb_loaddata, franka_call, kuka_entry, ur_call

    m, c, J = load.mass, load.centre, load.inertia_about_centre
    xx, yy, zz, xy, xz, yz = J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]
    named = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), (xx, xy, xz, yy, yz, zz), strict=True)
    entries = " ".join(f'{name}="{value:.9g}"' for name, value in named)
    return "\n".join(
        [
            f"UR      {_format_or_reason(ur_call, load)}",
            f"Franka  {_format_or_reason(franka_call, load)}  // column by column",
            f"KUKA    {_format_or_reason(kuka_entry, load)}  ; mm, degrees",
            f"ABB     loaddata {_format_or_reason(abb_loaddata, load)}  ! mm",
            f'URDF    <inertial><origin xyz="{c[0]:.9g} {c[1]:.9g} {c[2]:.9g}" rpy="0 0 0"/><mass value="{m:.9g}"/>'
            f"<inertia {entries}/></inertial>",
            f'MJCF    <inertial pos="{c[0]:.9g} {c[1]:.9g} {c[2]:.9g}" mass="{m:.9g}" '
            f'fullinertia="{xx:.9g} {yy:.9g} {zz:.9g} {xy:.9g} {xz:.9g} {yz:.9g}"/>',
            "C       static const double load_phi[10] = {"
            + ", ".join(f"{value:.17g}" for value in load.phi)
            + "}; /* m, mc, I about the origin: "
            + " ".join(LINK_PARAMETERS[4:])
            + " */",
        ]
    )


def _format_or_reason(render: Callable[[Payload], str], load: Payload) -> str:
    """Return the text of a controller, or why its format cannot hold the values."""
    try:
        return render(load)
    except ExportError as error:
        return f"no values: {error.message}"


def _write_for_controller(load: Payload, to: str, out: Path | None, name: str | None) -> None:
    """Write the file of a controller, or print its text on stdout."""
    from mindyn.output.export.controller_payloads import format_payload, write_payload

    if out is None:
        typer.echo(format_payload(load, to, name=name), nl=False)
    else:
        print_status(f"wrote {write_payload(load, out, to, name=name)}")


def _print_wrench_payload(sensed: WrenchPayload, c: Path | None, arm: Robot | None, *, as_json: bool) -> None:
    """Print the payload on a force/torque sensor and write the C header; exit if the readings contradict the log."""
    load = sensed.load
    if as_json:
        print_json(_payload_data(load, load) | _sensor_data(sensed))
    _require_consistent_readings(sensed)
    if not as_json:
        print_output(_describe_load(load))
        print_output()
        _print_parameters(load)
        print_output()
        _print_sensor(sensed)
        if load.is_feasible:
            _print_for_controllers(load, load)
    if c is not None:
        sensed.write_c(c, *(() if arm is None else (arm.gravity,)))
        print_status(f"wrote {c}")


def _require_consistent_readings(sensed: WrenchPayload) -> None:
    """Print the findings, and exit if the readings contradict their metadata."""
    print_findings(sensed.findings, verbose=True)
    if any(finding.severity is Severity.ERROR for finding in sensed.findings):
        raise typer.Exit(ExitCode.NO)


def _print_sensor(sensed: WrenchPayload) -> None:
    from mindyn.foundation.algebra.rotations import rpy_from_rotation

    units, names = ["N m"] * 3 + ["N"] * 3, [f"{what} {axis}" for what in ("moment", "force") for axis in "xyz"]
    rows: list[tuple[str, ...]] = [("bias", "value", "95 % +-", "unit")]
    for name, value, width, unit in zip(names, sensed.bias, sensed.bias_half_widths, units, strict=True):
        rows.append((name, f"{value:.4g}", f"{width:.2g}", unit))
    print_table(rows)
    print_output()
    if sensed.rotation_half_widths.any():
        angles = zip(rpy_from_rotation(sensed.rotation), sensed.rotation_half_widths, strict=True)
        listed = ", ".join(f"{degrees(a):.2f} +- {degrees(w):.2f}" for a, w in angles)
        print_output(f"Rotation of the sensor, roll, pitch, yaw: {listed} deg.")
    print_output(f"Held-out error: {sensed.held_out_force:.3g} N, {sensed.held_out_moment:.3g} N m (rms).")


def _sensor_data(sensed: WrenchPayload) -> dict[str, Any]:
    arrays = ("bias", "bias_half_widths", "rotation", "rotation_half_widths")
    return {
        **{name: getattr(sensed, name).tolist() for name in arrays},
        **{name: getattr(sensed, name) for name in ("held_out_moment", "held_out_force", "frame", "acts_on")},
        "findings": [finding.to_dict() for finding in sensed.findings],
    }


def _payload_data(load: Payload, there: Payload) -> dict[str, Any]:
    return {
        "link": load.link,
        "mass": load.mass,
        "mass_interval": list(load.mass_interval),
        "centre": load.centre.tolist(),
        "centre_half_widths": load.centre_half_widths.tolist(),
        "phi": load.phi.tolist(),
        "half_widths": load.half_widths.tolist(),
        "not_identifiable": list(load.unidentifiable),
        "positive_definite": load.is_feasible,
        "gain_deviation": load.gain_deviation,
        "frame": there.link,
        "centre_in_frame": there.centre.tolist(),
        "inertia_about_centre_in_frame": there.inertia_about_centre.tolist(),
        "findings": [finding.to_dict() for finding in load.findings],
    }
