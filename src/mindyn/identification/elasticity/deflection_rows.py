"""`DeflectionRows`: deflection of every joint, and the torque that a link model predicts for it.

The torque through a joint is that of links and springs beyond it. Predicted from the motion of the links, it is free of
friction, rotor inertia and torque noise. A joint torque sensor measures it; the prediction is then its instrument.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import Estimate, predict_unfiltered
from mindyn.identification.estimators.instrument_steps import inertia_matrices
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.filters import lowpass
from mindyn.logs.log import Log
from mindyn.logs.samples import Samples, segment_ends
from mindyn.regression.experiment import Experiment

LINK_KINDS: Final = ("link", "extra", "joint_side")
"""Parameters whose torque passes through the elastic joint: links, springs, friction of the joint's own motion."""
MAX_CUTOFF_HZ: Final = 10.0
"""Largest cut-off: elastic joints deflect with the motion of the links, which ends below; above is encoder noise."""
ROWS_PER_PERIOD: Final = 5
"""Rows that are kept for each period of the cut-off."""
MAX_ROWS: Final = 20_000
EDGE_PERIODS: Final = 1.0
"""Periods of the cut-off that are cut at the ends of segments, where filters are one-sided."""


@dataclass(frozen=True, slots=True, eq=False)
class DeflectionRows:
    """Low-passed rows of all logs, with a mark of the rows that are fitted.

    kept         (k,) rows that are fitted: without the ends of segments, as many as the cut-off needs
    samples      motion at all rows
    owners       (N,) number of the log of each row
    time         (N,) s
    deflection   (N, n) motor position minus link position, rad or m
    torque       (N, n) through the joints, N m or N: measured by a sensor, or predicted
    rate         (N, n) its derivative
    instrument   (N, n) predicted torque through the joints
    inertia      (n,) least inertia about each joint that the estimate predicts, without rotors that it separates
    merged       (n,) whether the rotor inertia is a part of the estimate's link parameters
    has_sensor   whether a sensor measures the torque
    cutoff_hz    of motion and torque
    """

    kept: NDArray[np.intp]
    samples: Samples
    owners: NDArray[np.int64]
    time: Array
    deflection: Array
    torque: Array
    rate: Array
    instrument: Array
    inertia: Array
    merged: NDArray[np.bool_]
    has_sensor: bool
    cutoff_hz: float

    @property
    def starts(self) -> list[int]:
        """First row of every segment."""
        return [start for start, _ in segment_ends(self.samples.segments)]

    def smooth(self, values: Array) -> Array:
        """Low-pass values (N, ...) of all rows as the deflection is low-passed, for functions of the torque."""
        result = np.empty_like(values)
        for start, stop in segment_ends(self.samples.segments):
            result[start:stop] = lowpass(values[start:stop], self.cutoff_hz, self.samples.rate_hz)
        return result


def build_deflection_rows(estimate: Estimate, logs: list[Log]) -> DeflectionRows:
    """Condition logs with motor positions, and predict the torque through their joints."""
    require_motor_positions(logs)
    sensors = {log.metadata.torque_sensor for log in logs}
    if len(sensors) > 1:
        raise InputError(
            "some logs have torques of joint sensors, others of motors",
            hint="identify them one after the other",
            code=Code.DISAGREEMENT,
            subject="torque_sensor",
        )
    conditioning = choose_conditioning(estimate)
    conditioned = Experiment(estimate.robot, logs).samples(conditioning)
    samples, c = conditioned.samples, conditioned.conditioning
    cutoff = c.motion_hz
    assert samples.motor_q is not None
    assert isinstance(cutoff, float)
    links = link_parameters(estimate)
    predicted = predict_through(estimate, samples)
    tau = samples.tau.copy()
    rate = np.empty_like(tau)
    kept = []
    step = max(1, int(samples.rate_hz / (ROWS_PER_PERIOD * cutoff)), -(-len(samples) // MAX_ROWS))
    has_sensor = sensors == {True}
    for start, stop in segment_ends(samples.segments):
        part = slice(start, stop)
        predicted[part] = lowpass(predicted[part], cutoff, samples.rate_hz)
        tau[part] = lowpass(tau[part], cutoff, samples.rate_hz)
        through = tau if has_sensor else predicted
        rate[part] = np.gradient(through[part], axis=0) * samples.rate_hz if stop - start > 1 else 0.0
        edge = int(EDGE_PERIODS * samples.rate_hz / cutoff)
        kept.append(np.arange(start + edge, stop - edge, step))
    rows = np.concatenate(kept)
    if len(rows) < 10:
        raise InputError(
            f"the logs have only {len(rows)} rows for deflections at a cut-off of {cutoff:g} Hz",
            hint="pass longer logs",
            code=Code.TOO_LITTLE_DATA,
            subject="logs",
        )
    through = tau if has_sensor else predicted
    M = inertia_matrices(estimate.regressor, np.where(links, estimate.beta, 0.0), samples.take(rows))
    rotors = {parameter.link_or_joint for parameter in estimate.parameters if parameter.kind == "rotor"}
    merged = np.array([name not in rotors and not has_sensor for name in samples.joint_names])
    return DeflectionRows(
        rows,
        samples,
        conditioned.logs,
        conditioned.time,
        samples.motor_q - samples.q,
        through,
        rate,
        predicted,
        np.maximum(np.einsum("kii->ki", M).min(axis=0), 0.0),
        merged,
        has_sensor,
        cutoff,
    )


def predict_through(estimate: Estimate, samples: Samples) -> Array:
    """Return the torque (N, n) through the joints that the link model predicts."""
    return predict_unfiltered(estimate.regressor, np.where(link_parameters(estimate), estimate.beta, 0.0), samples)


def link_columns(estimate: Estimate, rows: DeflectionRows, joint: int) -> tuple[Array, NDArray[np.intp]]:
    """Return the columns (k, p) of the torque through a joint at the kept rows, and the numbers of their parameters."""
    samples, regressor = rows.samples.take(rows.kept), estimate.regressor
    q = regressor.positions(samples)
    directions = regressor.directions(q, samples.qd, samples.segments, samples.rate_hz)
    parts = regressor.parts(q, samples.qd, samples.qdd, directions)[joint]
    numbers = np.asarray(regressor.columns[joint], dtype=np.intp)
    links = link_parameters(estimate)[numbers]
    return np.concatenate(parts, axis=1)[:, links], numbers[links]


def link_parameters(estimate: Estimate) -> NDArray[np.bool_]:
    """Return which parameters (p,) give the torque through the joints."""
    return np.array([parameter.kind in LINK_KINDS for parameter in estimate.parameters])


def choose_conditioning(estimate: Estimate) -> Conditioning:
    """Return the conditioning of the estimate with a cut-off of at most `MAX_CUTOFF_HZ`, at every row."""
    c = estimate.settings.conditioning or Conditioning()
    known = isinstance(c.motion_hz, (int, float))
    cutoff = min(float(c.motion_hz), MAX_CUTOFF_HZ) if known else MAX_CUTOFF_HZ  # type: ignore[arg-type]
    plain = Conditioning(motion_hz=cutoff, edge_s=0.0)
    return replace(plain, delay_s=c.delay_s, gains=c.gains)


def require_motor_positions(logs: list[Log]) -> None:
    """Raise `InputError` if a log has no positions of the motors."""
    if missing := [log.name or "a log" for log in logs if log.motor_q is None]:
        raise InputError(
            f"{', '.join(missing)} has no motor positions, which the deflection of joints needs",
            hint="set columns.motor_position (encoders of the motors) and columns.position (encoders of the links)",
            code=Code.MISSING_VALUE,
            subject="columns.motor_position",
        )
