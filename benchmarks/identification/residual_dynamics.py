"""Do a torque time constant or an elastic mode of each joint predict held-out blocks of real logs better?

    MINDYN_REAL_DATA=folder python -m benchmarks.identification.residual_dynamics [set ...] [--record]

Only training rows are read. `identify` selects settings and estimator; contiguous blocks are then held out in turn.
Candidates are filters of the predicted torque with one set of constants for each joint, stable for every value that the
search admits, selected on the remaining blocks:

    lag    1 / (1 + T s),                    T >= 0
    mode   1 / (1 + 2 z s / w + s^2 / w^2),  w, z > 0: of links behind a joint of stiffness k, w^2 = k / I

"after" filters the prediction of the default model and keeps its parameters. "refit" estimates all parameters together
with the filters, by least squares; it is compared with the same fit without filters. The mode of "refit" acts on the
torque of the links only, because rotor and friction are on the motor's side of the spring; "all" filters every column.
"lags" is a reference without physics: five past values, 10 ms apart, of speed and predicted torque of the same joint.
A candidate is added to mindyn if it lowers the error by 5 % on two sets.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from math import ceil, log
from pathlib import Path
from time import process_time

import numpy as np
from scipy.signal import bilinear, lfilter, lfilter_zi

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # the sets, their splits and what their notes say are described there

# ruff: noqa: E402
from honesty.repeated_runs import load_ur10e
from logs.real_sets import FOLDER

import mindyn
from benchmarks.identification.automatic_choice import TITLES, fit_with_settled_load, load_training
from benchmarks.sections import Section, arguments, publish
from benchmarks.timing import this_machine
from mindyn.identification.selection.choose import choose
from mindyn.logs.filters import MIN_EDGE_S, edge_duration_s, lowpass
from mindyn.logs.pipeline import condition
from mindyn.logs.samples import segment_ends

SETS = {**TITLES, "ur10e_innopolis": "UR10e"}
BLOCKS = 8
MIN_GAIN, MIN_SETS = 0.05, 2
"""Fraction by which a candidate must lower the error, and on how many sets."""
TIME_CONSTANTS_S = (0.0, *np.geomspace(0.001, 0.5, 14))
DAMPING_RATIOS = (0.05, 0.2, 0.6)
FREQUENCY_COUNT = 10
LAG_STEP_S, LAG_COUNT = 0.01, 5
MOTOR_SIDE = ("rotor", "viscous", "coulomb", "friction", "joint_side", "offset")
SWEEPS = 2


@dataclass(frozen=True, slots=True)
class TorqueFilter:
    """A stable discrete filter with unit gain at rest; an empty denominator stands for no filter."""

    words: str
    numerator: tuple[float, ...] = ()
    denominator: tuple[float, ...] = ()

    def apply(self, x, ends):
        """Filter (N, c) segment by segment, from the steady state of the first row."""
        if not self.denominator:
            return x
        y, start_state = np.empty_like(x), lfilter_zi(self.numerator, self.denominator)[:, None]
        for start, stop in ends:
            y[start:stop] = lfilter(
                self.numerator, self.denominator, x[start:stop], axis=0, zi=start_state * x[start : start + 1]
            )[0]
        return y


NO_FILTER = TorqueFilter("none")


def lags(rate_hz):
    """Return first-order filters, by the exact response to steps."""
    filters = [NO_FILTER]
    for seconds in TIME_CONSTANTS_S[1:]:
        a = float(np.exp(-1 / (rate_hz * seconds)))
        filters.append(TorqueFilter(f"{1e3 * seconds:.3g} ms", (1 - a, 0.0), (1.0, -a)))
    return filters


def modes(rate_hz):
    """Return second-order filters, by the bilinear transform with its frequency kept."""
    filters = [NO_FILTER]
    for hz, damping in product(np.geomspace(1.5, 0.35 * rate_hz, FREQUENCY_COUNT), DAMPING_RATIOS):
        w = 2 * rate_hz * np.tan(np.pi * hz / rate_hz)
        b, a = bilinear([w**2], [1.0, 2 * damping * w, w**2], rate_hz)
        filters.append(TorqueFilter(f"{hz:.3g} Hz, {damping:g}", tuple(b), tuple(a)))
    return filters


class Data:
    """Columns and torque of the training rows, and the rows of each block to fit and to score."""

    def __init__(self, estimate, logs) -> None:
        settings, regressor = estimate.settings, estimate.regressor
        conditioning = estimate.settings.conditioning
        self.estimate, self.regressor, self.cutoff_hz = estimate, regressor, estimate.settings.filtering.equations_hz
        self.conditioned = condition(estimate.robot, list(logs), conditioning.for_prediction())
        samples = self.samples = self.conditioned.samples
        self.rate, self.ends = samples.rate_hz, segment_ends(samples.segments)
        q = regressor.positions(samples)
        directions = regressor.directions(q, samples.qd, samples.segments, self.rate)
        parts = regressor.parts(q, samples.qd, samples.qdd, directions)
        kept = np.array([name not in estimate.values.dropped for name in estimate.names])
        self.places = [columns[kept[columns]] for columns in regressor.columns]
        self.columns = [
            np.concatenate(arrays, axis=1)[:, kept[columns]]
            for arrays, columns in zip(parts, regressor.columns, strict=True)
        ]
        self.smooth = self.lowpass(samples.tau)
        trim, edge = ceil(edge_duration_s(self.cutoff_hz) * self.rate), ceil(MIN_EDGE_S * self.rate)
        self.blocks, self.fitted, self.scored = [], [], []
        for start, stop in self.ends:
            count = max(2, round(BLOCKS * (stop - start) / len(samples)))
            for first, last in zip(
                *(np.linspace(start, stop, count + 1).astype(int)[k:] for k in (0, 1)), strict=False
            ):
                self.blocks.append((first, last))
                self.fitted.append(np.arange(first + trim, last - trim, settings.filtering.keep_every))
                self.scored.append(np.arange(max(first, start + edge), min(last, stop - edge)))
        self.slowest = conditioning.slow_speed or 0.0

    def lowpass(self, x):
        """Apply the parallel filter to (N, c)."""
        if self.cutoff_hz is None:
            return x
        return np.concatenate([lowpass(x[a:b], self.cutoff_hz, self.rate) for a, b in self.ends])

    def is_motor_side(self, joint):
        """Return which columns of a joint are torques on the motor's side of a spring."""
        return np.array([self.regressor.parameters[k].kind in MOTOR_SIDE for k in self.places[joint]])

    def sums(self, joint, torque_filter, *, links_only):
        """Return normal matrices (blocks, c + 1, c + 1) of the rows to fit, and of those to score."""
        X = self.columns[joint]
        if links_only:
            unfiltered = self.is_motor_side(joint)
            X = np.where(unfiltered, X, torque_filter.apply(X, self.ends))
        else:
            X = torque_filter.apply(X, self.ends)
        X, speed = self.lowpass(X), np.abs(self.samples.qd[:, joint])
        fit, score = np.column_stack([X, self.smooth[:, joint]]), np.column_stack([X, self.samples.tau[:, joint]])
        rows = [rows[speed[rows] >= self.slowest] for rows in self.fitted]
        return [
            np.array([part.T @ part for part in (Z[k] for k in taken)])
            for Z, taken in ((fit, rows), (score, self.scored))
        ]

    @property
    def power(self):
        """Sum of the squared torques of all scored rows."""
        return sum(float((self.samples.tau[rows] ** 2).sum()) for rows in self.scored)


def solve(A, b):
    """Solve scaled normal equations without their negligible directions."""
    scale = np.sqrt(np.maximum(np.diag(A), 1e-300))
    values, vectors = np.linalg.eigh(A / np.outer(scale, scale))
    large = values > 1e-12 * values[-1]
    return vectors[:, large] @ ((vectors[:, large].T @ (b / scale)) / values[large]) / scale


def refit(data, filters, *, links_only):
    """Return the error on held-out blocks of least squares with filters selected on the others, and the filters."""
    n, count = len(data.columns), data.regressor.count
    sums = [[data.sums(j, f, links_only=links_only) for f in filters] for j in range(n)]
    blocks = range(len(data.blocks))
    left, selected = 0.0, []
    for held in blocks:
        rest = [k for k in blocks if k != held]
        fit = [[s[0][rest].sum(axis=0) for s in of_joint] for of_joint in sums]
        rows = [max(1.0, sum(len(data.fitted[k]) for k in rest))] * n
        weights, choice = np.ones(n), [0] * n

        def normal(j, g, weights=weights, fit=fit):
            A, b = np.zeros((count, count)), np.zeros(count)
            M, at = fit[j][g], data.places[j]
            A[np.ix_(at, at)], b[at] = weights[j] * M[:-1, :-1], weights[j] * M[:-1, -1]
            return A, b

        def squares(j, g, beta, fit=fit):
            v = np.append(beta[data.places[j]], -1.0)
            return max(float(v @ fit[j][g] @ v), 1e-300)

        for _ in range(4):
            parts = [normal(j, 0) for j in range(n)]
            beta = solve(sum(A for A, _ in parts), sum(b for _, b in parts))
            weights[:] = [rows[j] / squares(j, 0, beta) for j in range(n)]
        parts = [normal(j, 0) for j in range(n)]
        beta = solve(sum(A for A, _ in parts), sum(b for _, b in parts))
        best = sum(weights[j] * squares(j, 0, beta) for j in range(n))
        for _, j in product(range(SWEEPS if len(filters) > 1 else 0), range(n)):
            others = [sum(part[i] for k, part in enumerate(parts) if k != j) for i in (0, 1)]
            for g in range(len(filters)):
                part = normal(j, g)
                tried = solve(others[0] + part[0], others[1] + part[1])
                options = [g if k == j else choice[k] for k in range(n)]
                error = sum(weights[k] * squares(k, options[k], tried) for k in range(n))
                if error < best:
                    best, beta, choice[j], parts[j] = error, tried, g, part
        for j in range(n):
            v = np.append(beta[data.places[j]], -1.0)
            left += float(v @ sums[j][choice[j]][1][held] @ v)
        selected.append([filters[g].words for g in choice])
    return float(np.sqrt(left / data.power)), selected


def held_out_predictions(data, robot, logs, choice):
    """Return for each block the prediction (N, n) of the default model fitted to the others."""
    for first, last in data.blocks:
        rest = []
        for number, part in enumerate(logs):
            rows = data.conditioned.rows[first:last][data.conditioned.logs[first:last] == number]
            if not len(rows):
                rest.append(part)
                continue
            low, high = np.searchsorted(part.rows, [rows.min(), rows.max() + 1])
            rest += [piece for piece in (part.take(slice(0, low)), part.take(slice(high, None))) if len(piece) > 50]
        yield fit_with_settled_load(choice.estimator, robot, rest, choice.settings).predict(data.samples)


def after(data, predictions, filters):
    """Return the errors of the default model and of its prediction filtered, with filters selected on other blocks."""
    errors, selected = np.zeros(2), []
    for held, predicted in enumerate(predictions):
        rest = np.concatenate([rows for k, rows in enumerate(data.scored) if k != held])
        rows, words = data.scored[held], []
        filtered = [f.apply(predicted, data.ends) for f in filters]
        for j in range(predicted.shape[1]):
            tau = data.samples.tau[:, j]
            best = min(filters, key=lambda f, j=j, tau=tau: ((tau - filtered[filters.index(f)][:, j])[rest] ** 2).sum())
            words.append(best.words)
            errors += [((tau - y[:, j])[rows] ** 2).sum() for y in (predicted, filtered[filters.index(best)])]
        selected.append(words)
    return np.sqrt(errors / data.power), selected


def with_lags(data, predictions):
    """Return the error with past values of speed and predicted torque fitted to the residual of the other blocks."""
    step, left = max(1, round(LAG_STEP_S * data.rate)), 0.0
    for held, predicted in enumerate(predictions):
        rest = np.concatenate([rows for k, rows in enumerate(data.scored) if k != held])
        for j in range(predicted.shape[1]):
            source = np.column_stack([data.samples.qd[:, j], predicted[:, j]])
            X = np.zeros((len(source), 0))
            for k in range(LAG_COUNT):
                past = np.concatenate([source[np.maximum(np.arange(a, b) - k * step, a)] for a, b in data.ends])
                X = np.column_stack([X, past])
            residual = data.samples.tau[:, j] - predicted[:, j]
            coefficients = solve(X[rest].T @ X[rest], X[rest].T @ residual[rest])
            left += float(((residual - X @ coefficients)[data.scored[held]] ** 2).sum())
    return float(np.sqrt(left / data.power))


def measure(name):
    """Return the errors of all models on the blocks of one set."""
    robot, logs = (
        load_training(name) if name in TITLES else (load_ur10e("free.parquet")[0], [load_ur10e("free.parquet")[1]])
    )
    choice = choose(robot, logs)
    estimate = mindyn.identify(robot, logs, choice.estimator, choice.settings)
    data = Data(estimate, logs)
    predictions = list(held_out_predictions(data, robot, logs, choice))
    first, second = lags(data.rate), modes(data.rate)
    (default, lag_after), lag_words = after(data, predictions, first)
    (_, mode_after), mode_words = after(data, predictions, second)
    plain, _ = refit(data, [NO_FILTER], links_only=False)
    lag_refit, lag_refit_words = refit(data, first, links_only=False)
    mode_refit, mode_refit_words = refit(data, second, links_only=True)
    mode_all, _ = refit(data, second, links_only=False)
    words = {"lag": lag_words, "mode": mode_words, "lag, refit": lag_refit_words, "mode, refit": mode_refit_words}
    for model, blocks in words.items():
        joints = ["|".join(sorted({block[j] for block in blocks})) for j in range(len(blocks[0]))]
        print(f"  {name}, {model}: {'; '.join(joints)}", file=sys.stderr)
    return {
        "default": default,
        "lag, after": lag_after,
        "mode, after": mode_after,
        "lags": with_lags(data, predictions),
        "plain": plain,
        "lag, refit": lag_refit,
        "mode, refit": mode_refit,
        "mode, all": mode_all,
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("sets", nargs="*", default=list(SETS))
    options = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit("MINDYN_REAL_DATA names no folder with the real logs")
    passed: dict[str, int] = {}
    lines = []
    for name in options.sets:
        begin, errors = process_time(), measure(name)
        cells = []
        for model, error in errors.items():
            compared = errors["default" if model in ("lag, after", "mode, after", "lags") else "plain"]
            is_reference = model in ("default", "plain")
            cells.append(f"{100 * error:.2f} %" + ("" if is_reference else f" ({100 * (error / compared - 1):+.1f})"))
            if not is_reference:
                passed[model] = passed.get(model, 0) + (log(error / compared) <= log(1 - MIN_GAIN))
        lines = lines or [("set", *errors)]
        lines.append((SETS[name], *cells))
        print("  ".join(lines[-1]), f"{process_time() - begin:.0f} s", file=sys.stderr, flush=True)
    accepted = [model for model, count in passed.items() if count >= MIN_SETS and model != "lags"]
    decision = ", ".join(accepted) or "none is, and mindyn has no such dynamics"
    counts = ", ".join(f"{model} {count}" for model, count in passed.items())
    publish(
        Section(
            "residual_dynamics",
            "Time constants and elastic modes",
            "MINDYN_REAL_DATA=... python -m benchmarks.identification.residual_dynamics",
            this_machine(),
            [
                "Torque error on held-out blocks of the training rows; in brackets the change in percent. Candidates: "
                "a torque time constant of each joint (lag), and an elastic mode of each joint (mode), as stable "
                "filters of the predicted torque. Columns 3 to 5 keep the parameters of the default model and are "
                "compared with it; the last three estimate all parameters again and are compared with least squares "
                "(plain). `lags`, a reference without physics, fits five past values of speed and predicted torque to "
                "the residual."
            ],
            lines,
            [
                f"Sets whose error a model lowers by {100 * MIN_GAIN:g} % or more: {counts}. A candidate is accepted "
                f"if it does so on {MIN_SETS} sets: {decision}."
            ],
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
