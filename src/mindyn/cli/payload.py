"""`mindyn payload`: identify a payload and print it in the formats of robot controllers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from mindyn.cli.arguments import JSON_OPTION
from mindyn.cli.printing import print_findings, print_output, print_status, print_table
from mindyn.cli.runs import RUN_ARGUMENT, load_run_estimate, read_logs, require_held_out
from mindyn.errors import unknown_name_error
from mindyn.loads.from_runs import Payload
from mindyn.loads.payload import GAIN_DEVIATION
from mindyn.loads.payload import payload as payload_of
from mindyn.notation import LINK_PARAMETER_UNITS, LINK_PARAMETERS
from mindyn.robots.robot import Robot


def payload(
    run: Annotated[Path, RUN_ARGUMENT],
    log: Annotated[Path, typer.Argument(help="Log with the payload; a sidecar .toml describes its columns.")],
    link: Annotated[str | None, typer.Option(help="Link that carries the payload; default: the last link.")] = None,
    frame: Annotated[
        str | None,
        typer.Option(help="Frame of that link, such as tool0, in which to print the payload for controllers."),
    ] = None,
    gain_deviation: Annotated[
        float, typer.Option(help="Standard deviation of the torque scale of each joint; 0.01 is one percent.")
    ] = GAIN_DEVIATION,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Identify the payload in a log, given an estimate of the arm without payload."""
    estimate = load_run_estimate(run)
    logs = read_logs([log], estimate.robot, estimate.conditioning)
    hint = "pass a log with the payload; the estimate must be of the arm without it"
    require_held_out(estimate.sources, logs, hint, "its payload is part of the estimate")
    load = payload_of(estimate, logs[0], link=link, gain_deviation=gain_deviation)
    load_in_frame = _express_in_frame(estimate.robot, load, frame)
    print_findings(load.findings)
    if as_json:
        typer.echo(json.dumps(_payload_data(load, load_in_frame), indent=1))
        return
    print_output(_describe_load(load))
    if not load.is_feasible:
        print_output()
        print_output("No values for controllers.")
        return
    print_output()
    _print_parameters(load)
    if load.phi[0] > 0 and "m" not in load.unidentifiable:
        typer.echo(f"\n{format_for_controllers(load_in_frame)}")
        if load.unidentifiable:
            print_status(
                f"note: the log does not determine these parameters; physically consistent values are printed: {', '.join(load.unidentifiable)}"
            )
    else:
        print_output()
        print_output("No values for controllers: the log does not determine the mass.")


def _express_in_frame(robot: Robot, load: Payload, frame: str | None) -> Payload:
    if frame is None:
        return load
    on_link = {candidate.name: candidate.pose for candidate in robot.frames if candidate.link == load.link}
    if frame not in on_link:
        raise unknown_name_error(f"frame of link {load.link!r}", frame, on_link)
    return load.in_frame(on_link[frame], frame)


def _describe_load(load: Payload) -> str:
    """Describe mass and centre of mass, with the coordinates that are identifiable."""
    low, high = load.mass_interval
    mass = f"{load.mass:.4g} kg (95 % interval {low:.4g} to {high:.4g} kg)"
    if not load.is_feasible:
        return (
            f"The log contradicts the estimate: the payload would need a mass between {low:.4g} and {high:.4g} kg, with a "
            "centre of mass and an inertia that are not physically consistent. Check that the estimate is of this arm, "
            "with the same drive gains and zero positions."
        )
    if "m" in load.unidentifiable:
        return f"No significant payload: its mass is at most {max(load.mass, high):.2g} kg."
    half_widths = load.centre_half_widths
    coordinates = [
        f"{axis} {c:.4f} +- {w:.4f} m" if f"mc{axis}" not in load.unidentifiable else f"{axis} not identifiable"
        for axis, c, w in zip("xyz", load.centre, half_widths, strict=True)
    ]
    return f"Payload mass {mass}; centre of mass in the frame of {load.link}: {', '.join(coordinates)}."


def _print_parameters(load: Payload) -> None:
    rows: list[tuple[str, ...]] = [("parameter", "value", "95 % +-", "unit", "")]
    for k, (name, unit) in enumerate(zip(LINK_PARAMETERS, LINK_PARAMETER_UNITS, strict=True)):
        state = "not identifiable" if name in load.unidentifiable else ""
        value, width = ("-", "-") if state else (f"{load.phi[k]:.4g}", f"{load.half_widths[k]:.2g}")
        rows.append((name, value, width, unit, state))
    print_table(rows, numbers=(1, 2), styles=["dim" if row[-1] else "" for row in rows[1:]])


def format_for_controllers(load: Payload) -> str:
    """Return the payload in the formats of robot controllers and robot files."""
    m, c, J = load.mass, load.centre, load.inertia_about_centre
    cog = ", ".join(f"{value:.6f}" for value in c)
    xx, yy, zz, xy, xz, yz = J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]
    tensor = ", ".join(f"{value:.6g}" for value in (xx, yy, zz, xy, xz, yz))
    named = zip(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), (xx, xy, xz, yy, yz, zz), strict=True)
    entries = " ".join(f'{name}="{value:.9g}"' for name, value in named)
    columns = ", ".join(f"{value:.6g}" for value in J.T.ravel())
    return "\n".join(
        [
            f"In frame {load.link} (axes and origin), inertia about the centre of mass; controllers expect the flange frame:",
            f"UR      set_target_payload({m:.6g}, [{cog}], [{tensor}])",
            f"Franka  setLoad({m:.6g}, {{{cog}}}, {{{columns}}})  // column by column",
            f"KUKA    LOAD_DATA[n]={{M {m:.6g},CM {{X {1e3 * c[0]:.3f},Y {1e3 * c[1]:.3f},Z {1e3 * c[2]:.3f},"
            f"A 0,B 0,C 0}},J {{X {xx:.6g},Y {yy:.6g},Z {zz:.6g}}}}}  ; mm, no products of inertia",
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
        "frame": there.link,
        "centre_in_frame": there.centre.tolist(),
        "inertia_about_centre_in_frame": there.inertia_about_centre.tolist(),
        "findings": [finding.to_dict() for finding in load.findings],
    }
