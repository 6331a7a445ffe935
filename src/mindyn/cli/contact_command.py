"""`mindyn contact`: detect contacts in a log, with thresholds for a given false alarm rate."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mindyn.cli.arguments import JSON_OPTION, require_companion
from mindyn.cli.choices import ALARMS_PER_HOUR, OBSERVER_GAIN_PER_S
from mindyn.cli.printing import print_json, print_output, print_status
from mindyn.cli.runs import RUN_ARGUMENT, load_run_estimate, read_logs
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.pages.document import Section, figure, format_plural, p, render_document

if TYPE_CHECKING:
    from mindyn.applications.contact.detection import Contact, ContactThresholds, ContactTrace
    from mindyn.identification.estimators.estimate import Estimate
    from mindyn.kernels.external_wrench import ContactKind, ExternalWrench
    from mindyn.robots.robot import Robot

PLOT_POINTS = 1500
"""Most points of a plotted curve."""


def contact(
    run: Annotated[Path, RUN_ARGUMENT],
    log: Annotated[Path, typer.Argument(help="Log in which to detect contacts.")],
    free: Annotated[
        list[Path] | None,
        typer.Option(help="Log without contact, for the thresholds; default: the logs of the estimate. Repeatable."),
    ] = None,
    alarms_per_hour: Annotated[float, typer.Option(help="Expected false alarms per hour.")] = ALARMS_PER_HOUR,
    gain: Annotated[
        float, typer.Option(help="Gain of the momentum observer, 1/s; the detection delay is about 1 / gain.")
    ] = OBSERVER_GAIN_PER_S,
    plot_to: Annotated[
        Path | None, typer.Option("--plot", help="HTML file to write, with residuals and thresholds.")
    ] = None,
    wrench: Annotated[
        bool, typer.Option("--wrench", help="Also estimate moment and force of each contact from the joint torques.")
    ] = False,
    link: Annotated[
        str | None, typer.Option(help="Link or frame that is touched, for --wrench; default: the link of each contact.")
    ] = None,
    point: Annotated[
        bool, typer.Option("--point", help="For --wrench: a contact exerts no moment at the origin of its frame.")
    ] = False,
    c: Annotated[Path | None, typer.Option("--c", help="C file to write, with the detector, such as arm.c.")] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Detect contacts in a log from an estimate of the arm: time, link, joints and direction."""
    from mindyn.applications.contact.detection import contact_trace, contact_wrenches, find_contacts
    from mindyn.identification.feasibility.full_models.full_model import build_full_model
    from mindyn.kernels.model import compile_model
    from mindyn.output.export.controller_code import write_contact_c

    for option, given in (("--link", link), ("--point", point)):
        require_companion(option, given, "--wrench", wrench)
    estimate = load_run_estimate(run)
    bounds = _compute_thresholds(estimate, free, alarms_per_hour, gain)
    trace = contact_trace(estimate, read_logs([log], estimate.robot, estimate.settings.conditioning)[0], bounds)
    events = find_contacts(trace, estimate.robot)
    kind: ContactKind = "point" if point else "surface"
    model = compile_model(estimate.robot) if wrench else None
    wrenches = () if model is None else contact_wrenches(trace, events, bounds, model, link, kind)
    if plot_to is not None:
        write_file_atomically(plot_to, contact_page(estimate.robot, trace, events, log.name))
    if c is not None:
        model = compile_model(build_full_model(estimate, friction_at_zero="fitted", force=True), with_drives=True)
        print_status(f"wrote {', '.join(map(str, write_contact_c(model, bounds, c)))}")
    if as_json:
        keys = ("start_s", "end_s", "link", "joints", "torque")
        contacts = [{key: getattr(event, key) for key in keys} for event in events]
        rows = [{"time_s": time, **_wrench_data(external)} for time, external in wrenches]
        data = {"contacts": contacts, "thresholds": bounds.to_dict()}
        print_json({**data, "wrenches": rows} if wrench else data)
    else:
        print_output(_format_contacts(estimate.robot, bounds, events), "  ")
        for time, external in wrenches:
            print_output()
            print_output(_format_wrench(time, external), "  ")
    if plot_to is not None:
        print_status(f"wrote {plot_to}: open it in a browser")


def _compute_thresholds(estimate: Estimate, free: Sequence[Path] | None, rate: float, gain: float) -> ContactThresholds:
    from mindyn.applications.contact.detection import contact_thresholds
    from mindyn.logs.log import group_sources

    paths = list(free or ())
    if not paths:
        paths = [Path(path) for path in group_sources(estimate.data.sources) if Path(path).exists()]
        if not paths:
            message, hint = "the logs of the estimate are not found for the thresholds", "pass a log: --free LOG"
            raise InputError(message, hint=hint, code=Code.MISSING_FILE, subject="--free")
        print_status("note: the thresholds are from the logs of the fit; other motions have larger residuals")
    return contact_thresholds(
        estimate, read_logs(paths, estimate.robot, estimate.settings.conditioning), alarms_per_hour=rate, gain=gain
    )


def _count_contacts(events: Sequence[Contact]) -> str:
    return format_plural(len(events), "contact") if events else "No contact"


def _format_contacts(robot: Robot, bounds: ContactThresholds, events: Sequence[Contact]) -> str:
    from mindyn.logs.metadata import si_units
    from mindyn.robots.table import format_table

    units = si_units(robot)["torque"]
    rows: list[tuple[str, ...]] = [("joint", "moving", "at standstill", "unit")]
    both = zip(bounds.joint_names, bounds.moving, bounds.moving + bounds.standstill, strict=True)
    rows += [(name, f"{moving:.3g}", f"{still:.3g}", units[name]) for name, moving, still in both]
    head = f"{_count_contacts(events)} (expected false alarms: {bounds.alarms_per_hour:g} per hour)"
    lines: list[tuple[str, ...]] = [("from, s", "to, s", "link", "joints: sign and peak torque")]
    for event in events:
        torques = ", ".join(
            f"{name} {'+' if sign > 0 else '-'}{event.torque[name]:.3g} {units[name]}"
            for name, sign in event.joints.items()
        )
        lines.append((f"{event.start_s:.2f}", f"{event.end_s:.2f}", event.link, torques))
    table = f"\n\n{format_table(lines)}" if events else ""
    return f"{head}{table}\n\nthresholds from {bounds.seconds:.3g} s without contact\n{format_table(rows)}"


def _format_wrench(time: float, external: ExternalWrench) -> str:
    """Format moment and force with 95 % intervals, and the directions that the posture does not observe."""
    from mindyn.foundation.algebra.significance import NORMAL_95
    from mindyn.robots.table import format_table

    rows: list[tuple[str, ...]] = [("", "value", "95 % +-", "unit")]
    names = [f"{what} {axis}" for what in ("moment", "force") for axis in "xyz"]
    for name, value, deviation in zip(names, external.wrench, external.deviations, strict=True):
        known = isfinite(deviation)
        unit = "N m" if name.startswith("moment") else "N"
        rows.append((name, f"{value:.3g}" if known else "-", f"{NORMAL_95 * deviation:.2g}" if known else "-", unit))
    count = int(external.unobservable_count)
    note = f"; this posture does not observe {format_plural(count, 'direction')}" if count else ""
    return f"wrench on {external.link} in its axes at {time:.2f} s{note}\n{format_table(rows)}"


def _wrench_data(external: ExternalWrench) -> dict[str, Any]:
    return {
        "link": external.link,
        "wrench": external.wrench.tolist(),
        "covariance": external.covariance.tolist(),
        "unobservable_directions": external.unobservable_directions().tolist(),
    }


def contact_page(robot: Robot, trace: ContactTrace, events: Sequence[Contact], name: str) -> str:
    """Return an HTML page with the residual and thresholds of every joint; contacts are shaded."""
    from mindyn.foundation.pages.plots import axis, pane, plot, series
    from mindyn.logs.metadata import si_units

    shaded = [(event.start_s, event.end_s) for event in events]
    plots: dict[str, object] = {}
    figures = []
    step = -(-len(trace.time) // PLOT_POINTS)
    t = trace.time[::step].tolist()
    for j, joint in enumerate(trace.joint_names):
        r, low, high = (values[::step, j] for values in (trace.residual, trace.lower, trace.upper))
        curves = [series("thresholds", "band", t, low, kind="band", y2=high), series("residual", "measured", t, r)]
        y = pane(axis("external torque", si_units(robot)["torque"][joint]), curves, height=150, zero=True)
        plots[f"contact-{j}"] = plot(axis("time", "s"), [y], group="contact", shaded=shaded)
        figures.append(figure(f"contact-{j}", f"External torque on {joint}", joint))
    words = "Residual torque of the model and the thresholds for contact. Detected contacts are shaded."
    section = Section("contact", _count_contacts(events), [p(words), *figures], plots)
    return render_document(f"Contacts in {name}", _count_contacts(events), [section])
