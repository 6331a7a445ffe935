"""`mindyn contact`: where a log was touched, joint by joint, with thresholds for a stated rate of false alarms."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mindyn.algebra.values import Array
from mindyn.cli.arguments import JSON_OPTION
from mindyn.cli.printing import print_output, print_status
from mindyn.cli.runs import RUN_ARGUMENT, load_run_estimate, read_logs
from mindyn.contact.detection import (
    ALARMS_PER_HOUR,
    OBSERVER_GAIN_PER_S,
    Contact,
    ContactThresholds,
    ContactTrace,
    contact_thresholds,
    contact_trace,
    find_contacts,
)
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.export.controller_code import write_contact_c
from mindyn.feasibility.full_model import full_model
from mindyn.files import write_file_atomically
from mindyn.kernels.model import compile_model
from mindyn.pages.document import render_document
from mindyn.pages.markup import Section, figure, format_plural, p, to_html
from mindyn.pages.plots import axis, pane, plot, series
from mindyn.reading import read_json
from mindyn.robots.table import format_table

PLOT_POINTS = 1500
"""Of the curves in a plot."""


def contact(
    run: Annotated[Path, RUN_ARGUMENT],
    log: Annotated[Path, typer.Argument(help="The log in which contacts are looked for.")],
    free: Annotated[
        list[Path] | None,
        typer.Option(
            help="A log without contact, for the thresholds; the estimate's own logs if left out. Repeatable."
        ),
    ] = None,
    thresholds: Annotated[Path | None, typer.Option(help="Thresholds that --save wrote, in place of --free.")] = None,
    alarms_per_hour: Annotated[float, typer.Option(help="False alarms that are expected.")] = ALARMS_PER_HOUR,
    gain: Annotated[
        float, typer.Option(help="Of the observer, 1/s: contacts show within 1 / gain.")
    ] = OBSERVER_GAIN_PER_S,
    plot_to: Annotated[
        Path | None, typer.Option("--plot", help="Write a page with the residuals and their bounds.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the thresholds as JSON.")] = None,
    c: Annotated[Path | None, typer.Option("--c", help="Write the detector as C, such as arm.c.")] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Where an arm was touched in a log: joints, direction and link, from an estimate of the arm."""
    if thresholds is not None and free:
        raise InputError("--thresholds and --free exclude each other", hint="leave one of them out")
    found = load_run_estimate(run)
    bounds = (
        _load_thresholds(thresholds)
        if thresholds is not None
        else _compute_thresholds(found, free, alarms_per_hour, gain)
    )
    trace = contact_trace(found, read_logs([log], found.robot, found.conditioning)[0], bounds)
    seen = find_contacts(trace, found.robot)
    if save is not None:
        write_file_atomically(save, json.dumps(bounds.to_dict(), indent=1) + "\n")
    if plot_to is not None:
        write_file_atomically(plot_to, contact_page(trace, seen, log.name))
    if c is not None:
        model = compile_model(full_model(found, friction="fitted", force=True), drives=True)
        print_status(f"written: {', '.join(map(str, write_contact_c(model, bounds, c)))}")
    if as_json:
        typer.echo(json.dumps(_contacts_data(bounds, seen), indent=1))
    else:
        print_output(_format_contacts(bounds, seen), "  ")
    if save is not None:
        print_status(f"written: {save}, to be taken with --thresholds")
    if plot_to is not None:
        print_status(f"written: {plot_to}, to be opened in a browser")


def _compute_thresholds(found: Estimate, free: Sequence[Path] | None, rate: float, gain: float) -> ContactThresholds:
    paths = list(free or ())
    if not paths:
        paths = [Path(source.path) for source in found.sources if Path(source.path).is_file()]
        if not paths:
            raise InputError(
                "the estimate's own logs are not where they were", hint="--free LOG: a motion without contact"
            )
        print_status("note: thresholds come from the logs of the fit: other motions leave more unexplained")
    return contact_thresholds(found, read_logs(paths, found.robot, found.conditioning), alarms_per_hour=rate, gain=gain)


def _load_thresholds(path: Path) -> ContactThresholds:
    try:
        return ContactThresholds.from_dict(read_json(path, "file of thresholds", InputError))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is no file of thresholds: {error!r}", hint="mindyn contact --save writes one"
        ) from error


def _count_contacts(seen: Sequence[Contact]) -> str:
    return format_plural(len(seen), "contact") if seen else "No contact"


def _format_contacts(bounds: ContactThresholds, seen: Sequence[Contact]) -> str:
    rows: list[tuple[str, ...]] = [("joint", "moving", "standing still", "unit")]
    both = zip(bounds.joint_names, bounds.moving, bounds.moving + bounds.standstill, strict=True)
    rows += [(name, f"{moving:.3g}", f"{still:.3g}", "N m or N") for name, moving, still in both]
    head = f"{_count_contacts(seen)} (false alarms to expect: {bounds.alarms_per_hour:g} an hour)"
    lines: list[tuple[str, ...]] = [("from, s", "to, s", "link", "joints: direction and largest torque, N m or N")]
    for one in seen:
        felt = ", ".join(
            f"{name} {'+' if sign > 0 else '-'}{one.torque[name]:.3g}" for name, sign in one.joints.items()
        )
        lines.append((f"{one.start_s:.2f}", f"{one.end_s:.2f}", one.link, felt))
    table = f"\n\n{format_table(lines)}" if seen else ""
    return f"{head}{table}\n\nthresholds from {bounds.seconds:.3g} s without contact\n{format_table(rows)}"


def _contacts_data(bounds: ContactThresholds, seen: Sequence[Contact]) -> dict[str, Any]:
    made = [
        {"start_s": one.start_s, "end_s": one.end_s, "link": one.link, "joints": one.joints, "torque": one.torque}
        for one in seen
    ]
    return {"contacts": made, "thresholds": bounds.to_dict()}


def contact_page(trace: ContactTrace, seen: Sequence[Contact], name: str) -> str:
    """An HTML file: the residual of every joint between its bounds, contacts shaded."""
    shaded = [(one.start_s, one.end_s) for one in seen]
    plots: dict[str, object] = {}
    figures = []
    for j, joint in enumerate(trace.joint_names):
        t, r = _thin_curve(trace.time, trace.residual[:, j])
        low, high = (_thin_curve(trace.time, bound[:, j])[1] for bound in (trace.lower, trace.upper))
        curves = [
            series("no contact", "band", t, low, kind="band", y2=high),
            series("residual", "measured", t, r),
        ]
        y = pane(axis("external torque", "N m or N"), curves, height=150, zero=True)
        plots[f"contact-{j}"] = plot(axis("time", "s"), [y], group="contact", shaded=shaded)
        figures.append(figure(f"contact-{j}", f"External torque on {joint}", joint))
    words = "What the model does not explain, between the bounds within which it is no contact; contacts are grey."
    section = Section("contact", _count_contacts(seen), to_html([p(words), *figures]), plots)
    return render_document(f"Contacts in {name}", _count_contacts(seen), [section])


def _thin_curve(time: Array, values: Array) -> tuple[list[float], list[float]]:
    step = -(-len(time) // PLOT_POINTS)
    return time[::step].tolist(), values[::step].tolist()
