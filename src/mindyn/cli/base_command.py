"""`mindyn base`: print the base parameters of a robot as formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mindyn.cli.arguments import JSON_OPTION, ROBOT_ARGUMENT, complete_from, require_exclusive, with_robot_options
from mindyn.cli.choices import FORM_NAMES
from mindyn.cli.printing import print_json, print_notes, print_output, print_status, print_table

if TYPE_CHECKING:
    from mindyn.parameters.base_parameters import BaseParameters
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.robot import Robot


@with_robot_options
def base(
    robot: Annotated[str, ROBOT_ARGUMENT],
    form: Annotated[
        str,
        typer.Option(
            help=f"Form of the base parameters: {', '.join(FORM_NAMES)}.", autocompletion=complete_from(FORM_NAMES)
        ),
    ] = "structural",
    with_drives: Annotated[
        bool, typer.Option("--drives", help="Include rotor inertia, friction and torque offsets.")
    ] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
    symbols: Annotated[bool, typer.Option("--symbols", help="Print lengths as symbols instead of numbers.")] = False,
    unknown_gains: Annotated[
        bool,
        typer.Option("--unknown-gains", help="Print what logs with unknown gains do not determine."),
    ] = False,
    *,
    options: RobotOptions,
) -> None:
    """Print the base parameters: the combinations of link parameters that the dynamics depend on."""
    from mindyn.equations.identifiability.base_sets import base_parameters
    from mindyn.parameters.geometry_symbols import convert_to_dh_frames, symbolic_expressions

    require_exclusive({"--json": as_json, "--symbols": symbols})
    require_exclusive({"--unknown-gains": unknown_gains, "--symbols": symbols, "--drives": with_drives})
    loaded = options.load(robot)
    if unknown_gains:
        _print_gain_structure(loaded, as_json=as_json)
        return
    if symbols:
        loaded = convert_to_dh_frames(loaded)
        print_status("note: link parameters are in modified DH frames, with lengths a_i and d_i")
    base_set = base_parameters(loaded, form=form, with_drives=with_drives)
    if as_json:
        print_json(_base_data(base_set), indent=2)
    else:
        _print_base(base_set, symbolic_expressions(base_set) if symbols else base_set.shown_expressions)
    print_notes((*base_set.robot.findings, *base_set.notes))


def _print_gain_structure(robot: Robot, *, as_json: bool) -> None:
    from mindyn.identification.unknown_gains import TARGET_STRUCTURE, group_gains  # loads the readers of logs

    groups = group_gains(robot)
    if as_json:
        print_json({"gain_groups": groups, "position_targets": TARGET_STRUCTURE})
        return
    print_output("Gains and parameters are identifiable up to one factor for each group of joints:")
    for group in groups:
        print_output(f"{', '.join(group)}: one known gain, base parameter or load fixes all", "  ")
    print_output("Position targets:")
    for sentence in TARGET_STRUCTURE:
        print_output(sentence, "  ")


def _values(base_set: BaseParameters) -> list[float | None]:
    return list(base_set.values) if base_set.robot.has_parameters else [None] * base_set.count


def _print_base(base_set: BaseParameters, expressions: tuple[str, ...]) -> None:
    from mindyn.parameters.parameter import list_base_parameters

    rows = [("name", "value", "unit", "formula")]
    units = [parameter.unit for parameter in list_base_parameters(base_set)]
    for name, value, unit, formula in zip(base_set.names, _values(base_set), units, expressions, strict=True):
        rows.append((name, "" if value is None else f"{value:.6g}", unit, formula))
    roles = base_set.roles()
    groups = {kind: [label for label, role in roles.items() if role == kind] for kind in ("alone", "combined", "none")}
    labels_of = {"alone": "identifiable alone", "combined": "only in combinations", "none": "no effect"}
    print_output(f"{base_set.robot.name}: {base_set.count} base parameters of {len(base_set.labels)} ({base_set.form})")
    print_output()
    print_table(rows)
    print_output()
    for kind, labels in groups.items():
        print_output(f"{labels_of[kind]}: {', '.join(labels) or '-'}", "  ")


def _base_data(base_set: BaseParameters) -> dict[str, object]:
    return {
        "robot": base_set.robot.name,
        "form": base_set.form,
        "drives": base_set.with_drives,
        "names": list(base_set.names),
        "expressions": list(base_set.expressions),
        "values": _values(base_set),
        "labels": list(base_set.labels),
        "matrix": base_set.matrix.tolist(),
        "roles": base_set.roles(),
        "notes": list(base_set.notes),
    }
