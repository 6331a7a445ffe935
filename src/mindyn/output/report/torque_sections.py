"""Report sections on torques over time, their residuals, and friction over speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.pages.document import (
    Content,
    Html,
    Section,
    class_tag,
    figure,
    format_count,
    format_number,
    format_percent,
    format_plural,
    format_quantity,
    legend,
    p,
    tabs,
    tag,
)
from mindyn.foundation.pages.plots import axis, bucket_rows, pack_times, pane, plot, series, thinned_series
from mindyn.identification.estimators.estimate_records import FrictionCurve
from mindyn.identification.prediction.friction_curves import friction_curve, load_friction
from mindyn.identification.prediction.noise_floor_error import spectrum
from mindyn.identification.prediction.prediction import TorquePrediction
from mindyn.identification.prediction.prediction_errors import EDGE_S, MAX_EDGE_FRACTION
from mindyn.logs.time_stamps import sum_recorded_time
from mindyn.output.report.report_data import JointData, LogView, ReportData

TOTAL_BUCKETS: Final = 400_000
"""Buckets of all columns of a report together: about 2 MB of text."""
MAX_BUCKETS, MIN_BUCKETS = 16_000, 400
"""Most and fewest buckets of one column."""
HISTOGRAM_BINS: Final = 61
HISTOGRAM_DEVIATIONS: Final = 4.0
"""A histogram covers this many standard deviations on both sides."""
SPECTRUM_POINTS: Final = 240
CLOUD_POINTS: Final = 500
"""Points of a scatter plot."""
MIN_PEAK_RATIO: Final = 8.0
"""Power, relative to the median over frequencies, above which a caption mentions a peak."""
SHADED_NOTE: Final = (
    f" Shaded: {EDGE_S:g} s, or {100 * MAX_EDGE_FRACTION:g} % of a short segment, at the ends of each segment, which "
    "the errors exclude because filters are one-sided there; the residual is clipped there."
)
HOW_TO_READ: Final = (
    "A flat residual spectrum is noise; a peak where the torque is large means that the model misses an effect."
)


def torque_section(data: ReportData) -> Section | None:
    """Return the section with measured torque, predicted torque and residual of every joint over time."""
    if not data.logs:
        return None
    logs, joints, buckets = list(enumerate(data.logs)), list(enumerate(data.joints)), count_buckets(data.logs)
    panels: list[tuple[str, Content]] = [
        (joint.name, [_torque_figure(view, k, joint, i, buckets) for k, view in logs]) for i, joint in joints
    ]
    if len(joints) > 1:
        keys = legend(*((name, name, "line") for name in ("measured", "predicted", "residual")))
        figures = [
            figure(f"torque-{k}-{i}", f"Torque of {joint.name}, {view.name}, small", joint.name, shape="small", log=k)
            for k, view in logs
            for i, joint in joints
        ]
        panels.append(("All joints", class_tag("div", "glance", keys, class_tag("div", "grid", figures))))
    keys = class_tag("p", "fine", "Drag across a plot to zoom; double-click to reset. Keys: + − ← → 0.")
    body = [_log_choice(data.logs), tabs("torque", "Joint", panels), keys]
    units = [joint.torque_unit for joint in data.joints]
    return Section("torque", "Measured and predicted torque", body, plot_torques(data.logs, units))


def _log_choice(logs: Sequence[LogView]) -> Html:
    texts = [(view, format_count(len(view.prediction.time)), sum_recorded_time(view.prediction.time)) for view in logs]
    if len(texts) > 1:
        options = [
            tag("option", {"value": str(k)}, f"{view.name}, {view.role}: {rows} samples, {seconds:.4g} s")
            for k, (view, rows, seconds) in enumerate(texts)
        ]
        return class_tag("label", "choice", "Log", tag("select", {"id": "log"}, options))
    view, rows, seconds = texts[0]
    return p(f"{view.name} ({view.role}): {rows} samples over {seconds:.4g} s.")


def count_buckets(logs: Sequence[LogView]) -> int:
    """Return the buckets of each column, so few that all logs together stay within `TOTAL_BUCKETS`."""
    columns = 3 * len(logs) * logs[0].prediction.measured.shape[1]
    return int(np.clip(TOTAL_BUCKETS // columns, MIN_BUCKETS, MAX_BUCKETS))


def plot_torques(logs: Sequence[LogView], units: Sequence[str]) -> dict[str, Any]:
    """Return the plots `torque-LOG-JOINT` of all logs and joints, which share the times of each log."""
    buckets = count_buckets(logs)
    plots: dict[str, Any] = {"shared": {}}
    for k, view in enumerate(logs):
        prediction, time = view.prediction, f"time-{k}"
        scored = prediction.residual[prediction.scored]
        # Clip the unscored ends, where filters are one-sided, so that they do not scale the axis.
        clipped = np.clip(prediction.residual, scored.min(axis=0), scored.max(axis=0))
        plots["shared"][time] = pack_times(prediction.time, buckets)
        for joint, unit in enumerate(units):
            measured = thinned_series("measured", "measured", time, prediction.measured[:, joint], buckets)
            predicted = thinned_series("predicted", "predicted", time, prediction.predicted[:, joint], buckets)
            residual = thinned_series("measured − predicted", "residual", time, clipped[:, joint], buckets)
            panes = [
                pane(axis("torque", unit), [measured, predicted], height=250),
                pane(axis("residual", unit), [residual], height=110, zero=True),
            ]
            shaded = unscored_times(prediction)
            plots[f"torque-{k}-{joint}"] = plot(axis("time", "s"), panes, group=time, shaded=shaded)
    return plots


def unscored_times(prediction: TorquePrediction) -> list[tuple[float, float]]:
    """Return the intervals between the last scored sample before and the first one after a gap."""
    unscored = np.ones(len(prediction.time), dtype=bool)
    unscored[prediction.scored] = False
    marks = np.flatnonzero(np.diff(np.concatenate([[False], unscored, [False]]).astype(int)))
    last = len(prediction.time) - 1
    return [
        (float(prediction.time[max(start - 1, 0)]), float(prediction.time[min(stop, last)]))
        for start, stop in zip(marks[::2], marks[1::2], strict=True)
    ]


def _torque_figure(view: LogView, k: int, joint: JointData, number: int, buckets: int) -> Html:
    prediction, unit = view.prediction, joint.torque_unit
    measured, residual = prediction.measured[:, number], prediction.residual[prediction.scored, number]
    worst = int(np.abs(residual).argmax())
    rows = bucket_rows(len(measured), buckets)
    thinned = f" The plot shows minimum and maximum of every {format_plural(rows, 'sample')}." if rows > 1 else ""
    caption = (
        f"{joint.name} in {view.name} ({view.role}): the torque ranges from {format_number(measured.min(), 3)} to "
        f"{format_quantity(measured.max(), unit)}; the prediction error is "
        f"{format_quantity(float(np.sqrt(np.mean(residual**2))), unit)} rms and at most "
        f"{format_quantity(abs(residual[worst]), unit)} (at "
        f"{format_quantity(prediction.time[prediction.scored[worst]], 's', 4)})."
        f"{SHADED_NOTE if len(prediction.scored) < len(measured) else ''}{thinned}"
    )
    return figure(f"torque-{k}-{number}", f"Torque of {joint.name} over time, {view.name}", caption, log=k)


def residual_section(data: ReportData) -> Section | None:
    """Return the section with histograms over all scored rows, spectra and scatter plots of the longest log."""
    if not data.logs:
        return None
    logs = data.select_logs("held out")
    longest = max((view.prediction for view in logs), key=lambda prediction: len(prediction.time))
    residuals = np.concatenate([view.prediction.residual[view.prediction.scored] for view in logs])
    frequency, powers = compute_spectra(longest)
    plots: dict[str, object] = {}
    panels: list[tuple[str, Content]] = []
    for k, joint in enumerate(data.joints):
        name, unit = joint.name, joint.torque_unit
        plots[f"histogram-{k}"], words = _draw_histogram(residuals[:, k], unit)
        shown = [figure(f"histogram-{k}", f"Histogram of the residuals of {name}", words)]
        if len(frequency):
            plots[f"spectrum-{k}"] = _spectrum_plot(frequency, [power[:, k] for power in powers], unit)
            words = describe_spectrum(frequency, powers[1][:, k])
            shown.append(figure(f"spectrum-{k}", f"Power spectra of {name}", words))
        clouds = []
        # The torque is the predicted one, which has no noise.
        signals = {
            "position": (longest.samples.q, joint.position_unit),
            "speed": (longest.samples.qd, f"{joint.position_unit}/s"),
            "torque": (longest.predicted, unit),
        }
        for what, (values, signal_unit) in signals.items():
            points = _scatter(values[:, k], longest.residual[:, k], longest.scored)
            y = pane(axis("residual", unit), [points], height=150, zero=True)
            plots[f"against-{what}-{k}"] = plot(axis(what, signal_unit), [y])
            label = f"Residual of {name} against its {what}"
            clouds.append(figure(f"against-{what}-{k}", label, f"Against {what}.", shape="small"))
        panels.append((name, [class_tag("div", "pair", shown), class_tag("div", "grid", clouds)]))
    words = f"Residual: measured minus predicted torque on the {logs[0].role.replace(' ', '-')} logs."
    return Section("residuals", "Residuals", [p(words), tabs("residuals", "Joint", panels)], plots)


def _draw_histogram(residual: Array, unit: str) -> tuple[object, str]:
    """Return the histogram with the normal density of the same mean and deviation, and its caption."""
    mean, deviation = float(residual.mean()), float(residual.std())
    width, marks = deviation or 1.0, np.linspace(-HISTOGRAM_DEVIATIONS, HISTOGRAM_DEVIATIONS, HISTOGRAM_BINS + 1)
    edges = mean + width * marks
    density = np.histogram(residual, edges)[0] / (len(residual) * np.diff(edges))
    normal = np.exp(-(marks**2) / 2) / (width * np.sqrt(2 * np.pi))
    curves = [series("residual", "bars", edges, density, kind="bars"), series("normal", "normal", edges, normal)]
    drawn = plot(axis("residual", unit), [pane(axis("density", f"1/({unit})"), curves, height=210, zero=True)])
    beyond = format_percent(float(np.mean(np.abs(residual - mean) > 3 * width)))
    return drawn, (
        f"Mean {format_quantity(mean, unit, 2)}, standard deviation {format_quantity(deviation, unit)}; {beyond} of "
        "the samples are beyond three standard deviations; 0.27 % would be expected for a normal distribution."
    )


def _scatter(values: Array, residual: Array, rows: NDArray[np.intp]) -> Any:
    x, y = thin_values(values, rows), thin_values(residual, rows)
    order = np.argsort(x, kind="stable")
    return series("residual", "residual", x[order], y[order], kind="points")


def thin_values(values: Array, rows: NDArray[np.intp]) -> Array:
    """Return at most `CLOUD_POINTS` evenly spaced values of the rows, with four digits."""
    taken = rows[np.unique(np.linspace(0, len(rows) - 1, CLOUD_POINTS).astype(int))]
    return np.array([float(f"{value:.4g}") for value in values[taken]])


def compute_spectra(prediction: TorquePrediction) -> tuple[Array, tuple[Array, Array]]:
    """Return frequencies, evenly spaced on a logarithmic axis, and the power of torque and residual of every joint."""
    segments, rate = prediction.samples.segments, prediction.samples.rate_hz
    frequency, residual_power = spectrum(prediction.residual, segments, rate)
    _, torque_power = spectrum(prediction.measured, segments, rate)
    if len(frequency) < 2:
        return np.zeros(0), (residual_power[:0], torque_power[:0])
    starts = np.unique(np.rint(np.geomspace(1, len(frequency), SPECTRUM_POINTS + 1)).astype(int))

    def average(values: Array) -> Array:
        return np.array([values[a:b].mean(axis=0) for a, b in pairwise(starts)])

    return average(frequency), (average(torque_power), average(residual_power))


def _spectrum_plot(frequency: Array, powers: Sequence[Array], unit: str) -> object:
    names = (("torque", "measured"), ("residual", "residual"))
    curves = [series(name, role, frequency, power) for (name, role), power in zip(names, powers, strict=True)]
    y = axis("power", f"({unit})²/Hz", log=True)
    return plot(axis("frequency", "Hz", log=True), [pane(y, curves, height=210)])


def describe_spectrum(frequency: Array, residual_power: Array) -> str:
    """Explain a spectrum, with the frequency of its peak if it has one."""
    strongest = int(residual_power.argmax())
    if residual_power[strongest] <= MIN_PEAK_RATIO * np.median(residual_power):
        return HOW_TO_READ
    return f"The residual has a peak near {format_quantity(frequency[strongest], 'Hz', 2)}. {HOW_TO_READ}"


CURVE_POINTS: Final = 25
"""Points of a friction curve per direction, on each of a logarithmic and a linear grid."""
SLOW_SPEED_FRACTION: Final = 0.1
"""Fraction of the highest speed at which the caption gives friction: a smooth sign is zero close to rest."""
MOST_LAWS: Final = 3
"""Friction laws that the caption of a curve names."""


@dataclass(frozen=True, slots=True, eq=False)
class JointFriction:
    """Friction of one joint over speed.

    curve              of the estimate
    band               curve with the 95 % band that is shown: of all friction laws over the speeds driven, or `curve`
    prior              torque of the prior at the speeds of `curve`; None if it has no friction
    load_coefficients  friction relative to the load while driving and braking; None if not fitted
    data               speeds and torques of samples of a log: the curve plus the residual
    """

    joint: JointData
    curve: FrictionCurve
    band: FrictionCurve
    prior: Array | None
    load_coefficients: tuple[float, float] | None
    data: tuple[Array, Array]


def friction_section(data: ReportData) -> Section | None:
    """Return the section with the friction of every joint up to its peak speed; None without logs or drives."""
    if not data.logs or not data.estimate.base.with_drives:
        return None
    joints = compute_friction(data)
    plots = {f"friction-{k}": _friction_plot(friction) for k, friction in enumerate(joints)}
    figures = [
        figure(f"friction-{k}", f"Friction of {f.joint.name} over its speed", _describe_friction(f), shape="small")
        for k, f in enumerate(joints)
    ]
    has_bands = any(friction.band.laws for friction in joints)
    words = "Friction torque of each joint at constant speed, without torque offset. "
    if has_bands:
        words += "The band, over the speeds driven, contains the curve of another recording at the temperatures of "
        words += "these logs in 95 % of all cases: it includes all friction laws that the logs cannot separate, and "
        words += "the drift of friction within the logs. Intervals of single coefficients hold only for the law that "
        words += "was selected and the temperature of the logs."
    else:
        words += "The band is the 95 % interval"
        words += " of the fit without physical bounds." if data.estimate.values.is_constrained else "."
    if any(friction.load_coefficients is not None for friction in joints):
        words += " Friction also grows with the load of the gear: tau_f = (fc + f_load |load|) sign(qd) + fv qd, where"
        words += " load is the torque of links and rotors; the curves show friction "
        words += "under the mean load of the logs." if has_bands else "without load."
    keys = [("identified", "predicted", "line"), ("95 % band" if has_bands else "95 % interval", "band", "band")]
    keys.append(("samples of the log", "data", "points"))
    keys += [("prior", "prior", "line")] if any(friction.prior is not None for friction in joints) else []
    return Section("friction", "Friction", [p(words), legend(*keys), class_tag("div", "grid", figures)], plots)


def compute_friction(data: ReportData) -> list[JointFriction]:
    """Compute the friction of every joint up to the peak speed of the logs."""
    estimate = data.estimate
    longest = max((view.prediction for view in data.logs), key=lambda prediction: len(prediction.scored))
    training = data.select_logs("training")
    fastest = np.max([np.abs(view.prediction.samples.qd).max(axis=0) for view in training], axis=0)
    bands = {curve.joint: curve for curve in estimate.uncertainty.friction_curves}
    fractions = np.unique([*np.geomspace(1e-3, 1.0, CURVE_POINTS), *np.linspace(0.02, 1.0, CURVE_POINTS)])
    result = []
    for k, joint in enumerate(data.joints):
        half = (fastest[k] or 1.0) * fractions
        speeds = np.concatenate([-half[::-1], half])
        band = bands.get(joint.name)
        load = 0.0 if band is None else band.load
        curve = friction_curve(estimate, k, speeds, load)
        prior = None if data.prior is None else friction_curve(data.prior, k, speeds, load).torque
        speed, residual = (
            thin_values(values[:, k], longest.scored) for values in (longest.samples.qd, longest.residual)
        )
        order = np.argsort(speed)
        torque = friction_curve(estimate, k, speed[order], load).torque + residual[order]
        samples = speed[order], thin_values(torque, np.arange(len(torque)))
        prior = None if prior is None or not prior.any() else prior
        result.append(JointFriction(joint, curve, band or curve, prior, load_friction(estimate, k), samples))
    return result


def _friction_plot(friction: JointFriction) -> object:
    curve, band = friction.curve, friction.band
    curves = [series("data", "data", *friction.data, kind="points")]
    if np.isfinite(band.half_width).all():
        for part in (band.speed < 0, band.speed >= 0):  # no speed between both directions was driven steadily
            low, high = ((band.torque + sign * band.half_width)[part] for sign in (-1, 1))
            curves += [series("95 %", "band", band.speed[part], low, kind="band", y2=high)] if part.any() else []
    if friction.prior is not None:
        curves.append(series("prior", "prior", curve.speed, friction.prior))
    curves.append(series("identified", "predicted", curve.speed, curve.torque))
    y = pane(axis("friction", friction.joint.torque_unit), curves, height=150, zero=True)
    return plot(axis("speed", f"{friction.joint.position_unit}/s"), [y])


def _describe_friction(friction: JointFriction) -> str:
    name, curve = friction.joint.name, friction.curve
    if not curve.torque.any():
        return f"{name}: no friction was identified."
    slow = int(np.argmax(curve.speed >= SLOW_SPEED_FRACTION * curve.speed[-1]))
    slower, faster = (
        f"{format_quantity(curve.torque[k], friction.joint.torque_unit)} at "
        f"{format_quantity(curve.speed[k], f'{friction.joint.position_unit}/s')}"
        for k in (slow, -1)
    )
    laws = sorted(friction.band.laws.items(), key=lambda entry: -entry[1])[:MOST_LAWS]
    listed = ", ".join(f"{law} {format_percent(part)}" for law, part in laws)
    about = f" Laws in the band: {listed}." if laws else ""
    return f"{name}: {slower}, {faster}{_describe_load_friction(friction)}.{about}"


def _describe_load_friction(friction: JointFriction) -> str:
    if friction.load_coefficients is None or not any(friction.load_coefficients):
        return ""
    driven, braked = (format_percent(part) for part in friction.load_coefficients)
    parts = f"{driven} of the load" + ("" if driven == braked else f" while driving, {braked} while braking")
    return f"; including {parts}" if friction.band.load else f"; plus {parts}"
