"""`integrate_rows`: equations of motion integrated over intervals, which need no accelerations.

    momentum:  [Y_p]_a^b beta + int (Y_0 - Mdot) beta dt = int tau dt                       for every joint
    energy:    [qd.Y_p / 2]_a^b beta + int qd.(Y_0 - Mdot / 2) beta dt = int qd.tau dt      one for all joints

with M(q) qd = Y_p(q, qd) beta, the torque at qdd = 0 Y_0(q, qd) beta, and (dM/dt) qd = Mdot(q, qd) beta
[Gautier & Khalil 1988; Yoshida 1996, section 3.4.3]. qd.Mdot / 2 is the power of the velocity torques. The integral of
the energy equation therefore contains only gravity (the change of potential energy), friction and offsets.

The torque and the columns are integrated by the same weights. The only error is therefore that of the momentum (or the
kinetic energy): where friction changes its direction, the torque and the friction column jump together, so that their
integration errors cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, get_args

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.catalogue import build_equation
from mindyn.equations.loop_equations import loop_equation
from mindyn.foundation.algebra.requirements import require_positive
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise
from mindyn.kernels.closed_kernel import make_kernel
from mindyn.kernels.kernel import Kernel
from mindyn.logs.samples import Samples, segment_ends
from mindyn.regression.gather_blocks import BLOCKS, Block
from mindyn.regression.information import Information, triangle_of
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows

Form = Literal["momentum", "energy"]
Torque = Literal["sampled", "held"]
Reversals = Literal["avoid", "within"]
ENERGY_ROW: Final = "all joints"
"""Name of the row of energies, in W; rows of momentum have the names of the joints."""

GREGORY: Final = (95 / 288, 317 / 240, 23 / 30, 793 / 720, 157 / 160)
"""Weights of the first and last rows of an interval; all other rows have weight 1. The rule is exact for polynomials of
degree 5 [Gregory 1670].
"""
QUADRATURE_ROWS: Final = 2 * len(GREGORY)


@dataclass(frozen=True, slots=True)
class Integration:
    """How equations are integrated.

    form        "energy": one row for all joints; "momentum": one row for each joint
    interval_s  longest interval, s
    reversals   "avoid": intervals end where some friction changes its direction, since accelerations jump there;
                "within": intervals do not end there, for motions with smooth accelerations although friction jumps
    torque      "sampled": rows are values of a continuous torque; "held": the torque is constant from each row to the
    next
    """

    form: Form = "energy"
    interval_s: float = 0.2
    reversals: Reversals = "avoid"
    torque: Torque = "sampled"

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("form", self.form, Form),
            ("reversals", self.reversals, Reversals),
            ("torque", self.torque, Torque),
        ):
            if value not in get_args(choices):
                raise InputError(
                    f"{name} must be one of {', '.join(get_args(choices))}; got {value!r}",
                    code=Code.UNKNOWN_NAME,
                    subject=name,
                )
        require_positive(self.interval_s, "interval_s", "the longest interval in seconds")
        if self.torque == "held" and self.reversals == "within":
            raise InputError(
                "a held torque and a reversing friction need different quadratures: avoid the reversals",
                code=Code.DISAGREEMENT,
                subject="reversals",
            )

    def intervals(self, regressor: Regressor, samples: Samples) -> list[slice]:
        """Return the rows of every interval."""
        rows = round(self.interval_s * samples.rate_hz) + 1
        if rows < QUADRATURE_ROWS:
            raise InputError(
                f"interval_s = {self.interval_s:g} s is {rows} rows at {samples.rate_hz:g} Hz; "
                f"the quadrature needs {QUADRATURE_ROWS}",
                code=Code.OUT_OF_RANGE,
                subject="interval_s",
            )
        breaks = np.zeros(len(samples), dtype=np.bool_)
        if self.reversals == "avoid":
            breaks = reversals(regressor, samples)
        return intervals(samples, breaks, rows)


def integrate_rows(rows: Rows, how: Integration) -> Rows:
    """Return equations of the same parameters and samples, one for each interval, in the same blocks as `Rows`."""
    samples, regressor = rows.all_samples("energy and momentum differences"), rows.regressor
    taken = how.intervals(regressor, samples)
    integrated = IntegratedRegressor.of(regressor, how.form)
    directions = regressor.directions(regressor.positions(samples), samples.qd, samples.segments, samples.rate_hz)
    equations = [
        integrated.row(samples, interval, None if directions is None else directions[interval], how.torque)
        for interval in taken
    ]
    usable = np.array([_are_usable(samples, interval, how.form) for interval in taken])
    _require_enough(*integrated.of_rows, usable)
    blocks = [
        _interval_rows(integrated, np.stack(equations[part]), usable[part], taken[part])
        for a, b in pairwise(np.linspace(0, len(taken), min(BLOCKS, len(taken)) + 1).astype(int))
        for part in [slice(int(a), int(b))]
    ]
    return rows.with_blocks(blocks, "mean torque" if how.form == "momentum" else "mean power")


def _interval_rows(
    integrated: IntegratedRegressor, rows: Array, usable: NDArray[np.bool_], taken: Sequence[slice]
) -> Block:
    """Return the rows (k, n or 1, p + 1) of consecutive intervals."""
    names, columns = integrated.of_rows
    factors = tuple(triangle_of(rows[usable[:, i], i][:, [*part, -1]]) for i, part in enumerate(columns))
    counts = tuple(int(count) for count in usable.sum(axis=0))
    information = Information(names, integrated.torque.names, columns, factors, counts)
    return Block(0, (taken[0].start, taken[-1].stop), None, information, np.full((2, len(names)), np.nan))


def _are_usable(samples: Samples, taken: slice, form: Form) -> NDArray[np.bool_]:
    """Return whether a fit may use all rows of the interval: (n,) for each joint, or (1,) for the energy."""
    if samples.usable is None:
        return np.ones(samples.q.shape[1] if form == "momentum" else 1, dtype=np.bool_)
    whole = np.asarray(samples.usable[taken].all(axis=0))
    return whole if form == "momentum" else np.array([whole.all()])


def _require_enough(names: tuple[str, ...], columns: tuple[NDArray[np.intp], ...], usable: NDArray[np.bool_]) -> None:
    """Raise if there are too few rows to fit."""
    counts = usable.sum(axis=0) if usable.size else np.zeros(len(names), dtype=int)
    short = [
        f"{name} ({pluralise(count, 'interval')} for {pluralise(len(joint_columns), 'parameter')})"
        for name, count, joint_columns in zip(names, counts, columns, strict=True)
        if count <= len(joint_columns)
    ]
    if short:
        raise InputError(
            f"too few intervals: {', '.join(short)}",
            hint='use a longer log, a shorter interval_s, form="momentum" or a motion with fewer reversals',
            code=Code.TOO_LITTLE_DATA,
            subject="interval_s",
        )


@dataclass(frozen=True, slots=True, eq=False)
class IntegratedRegressor:
    """Regressors of integrated equations: Y_p, and Y_0 - Mdot (momentum) or Y_0 - Mdot / 2 (energy), with friction
    shapes.
    """

    torque: Regressor
    form: Form
    momentum: Kernel
    drift: Regressor

    @staticmethod
    def of(torque: Regressor, form: Form) -> IntegratedRegressor:
        """Return the integrated regressor of a torque regressor, for one form of the equations."""
        if torque.friction.needs_load:
            raise InputError(
                "differences of momentum and energy have no accelerations, so friction cannot depend on the load",
                hint='remove the shapes "load" and "driving" from the friction',
                code=Code.UNSUPPORTED,
                subject="friction",
            )
        momentum, drift = _momentum_functions(torque, 1.0 if form == "momentum" else 0.5)
        kernel = make_kernel(torque.robot, drift, compact=["Y"], matrices=["Y"])
        shaped = Regressor(torque.robot, torque.friction, torque.base, kernel)
        return IntegratedRegressor(torque, form, make_kernel(torque.robot, momentum, matrices=["Y"]), shaped)

    @property
    def of_rows(self) -> tuple[tuple[str, ...], tuple[NDArray[np.intp], ...]]:
        """Return the names of the rows of an interval, and the columns of each."""
        if self.form == "momentum":
            return self.torque.joint_names, tuple(self.torque.columns)
        return (ENERGY_ROW,), (np.arange(self.torque.count),)

    def row(self, samples: Samples, taken: slice, directions: Array | None, torque: Torque) -> Array:
        """Return the means [columns | right side] over the interval, (n, p + 1) N m or (1, p + 1) W."""
        q, qd = self.torque.positions(samples, taken), samples.qd[taken]
        weights = quadrature_weights(len(q)) / samples.rate_hz
        Y = self.drift.dense(self.drift.parts(q, qd, np.zeros_like(qd), directions))
        right = _torque_integral(samples, taken, weights, self.form, torque)
        ends = self.momentum(q[[0, -1]], qd[[0, -1]])
        rows = np.zeros((len(right), self.torque.count + 1))
        if self.form == "momentum":
            rows[:, :-1] = np.einsum("k,kij->ij", weights, Y)
            rows[:, : self.torque.base.count] += ends[1] - ends[0]
        else:
            rows[:, :-1] = np.einsum("k,ki,kij->j", weights, qd, Y)
            kinetic = np.einsum("ki,kij->kj", qd[[0, -1]], ends) / 2
            rows[:, : self.torque.base.count] += kinetic[1] - kinetic[0]
        rows[:, -1] = right
        return rows * samples.rate_hz / (len(q) - 1)


def _momentum_functions(torque: Regressor, share: float) -> tuple[Any, Any]:
    """Return (q, qd) -> Y_p and (q, qd, qdd) -> Y_0 - share Mdot, which does not depend on qdd.

    If loops are solved, q has all joints, and the closure is a further output of each function.
    """
    base, n, robot = torque.base, torque.joint_count, torque.robot
    traced = loop_equation if robot.has_dependents else build_equation
    regressor = traced(robot, "regressor", with_drives=base.with_drives, base=base)
    q = casadi.SX.sym("q", regressor.size1_in(0))
    qd, qdd = (casadi.SX.sym(name, n) for name in ("qd", "qdd"))
    rest = casadi.SX(n, 1)

    def Y(*motion: Any) -> Any:
        return regressor.call([q, *motion])[0]

    closure = regressor.call([q, rest, rest])[1:]
    Yp = Y(rest, qd) - Y(rest, rest)
    # Dependent joints follow the primary ones through the closure itself.
    along = casadi.SX(q.shape[0], 1)
    for k, name in enumerate(torque.joint_names):
        along[robot.joint_index(name) if closure else k] = qd[k]
    Mdot = casadi.reshape(casadi.jtimes(casadi.vec(Yp), q, along), *Yp.shape)
    drift = casadi.cse(Y(qd, rest) - share * Mdot)
    names = ["Y", *regressor.name_out()[1:]]
    momentum = casadi.Function("momentum_regressor", [q, qd], [casadi.cse(Yp), *closure], ["q", "qd"], names)
    return momentum, casadi.Function("drift_regressor", [q, qd, qdd], [drift, *closure], ["q", "qd", "qdd"], names)


def quadrature_weights(rows: int) -> Array:
    """Return the weights (rows,) of Gregory's rule for unit steps, with at least FEWEST_ROWS rows."""
    weights = np.ones(rows)
    weights[: len(GREGORY)] = GREGORY
    weights[-len(GREGORY) :] = GREGORY[::-1]
    return weights


def _torque_integral(samples: Samples, taken: slice, weights: Array, form: Form, torque: Torque) -> Array:
    """Return int tau dt (n,), or int qd.tau dt (1,).

    A torque that is held has the power integral tau_k.(q_(k+1) - q_k) in each step.
    """
    tau, q, qd = samples.tau[taken], samples.q[taken], samples.qd[taken]
    if torque == "held":
        steps = np.full_like(tau[:-1], 1 / samples.rate_hz) if form == "momentum" else np.diff(q, axis=0)
        done = (tau[:-1] * steps).sum(axis=0)
        return np.asarray(done if form == "momentum" else done.sum(keepdims=True))
    if form == "momentum":
        return np.asarray(weights @ tau)
    return np.array([np.einsum("k,ki,ki->", weights, qd, tau)])


def intervals(samples: Samples, breaks: NDArray[np.bool_], longest_rows: int) -> list[slice]:
    """Cut segments of samples into intervals of equal length.

    Neighbouring intervals share a row; segments that are too short are skipped.

    breaks  (N,) whether an interval must end between the previous row and this one
    """
    slices = []
    for start, stop in segment_ends(samples.segments):
        cuts = [start, *(start + 1 + np.flatnonzero(breaks[start + 1 : stop])), stop]
        for first, after in pairwise(cuts):
            pieces = max(1, -(-(after - first - 1) // (longest_rows - 1)))
            bounds = np.linspace(first, after - 1, pieces + 1).astype(int)
            slices += [slice(int(a), int(b) + 1) for a, b in pairwise(bounds) if b - a + 1 >= QUADRATURE_ROWS]
    return slices


def reversals(regressor: Regressor, samples: Samples) -> NDArray[np.bool_]:
    """Return (N,) whether the speed of some Coulomb friction is zero or changes its sign since the previous row."""
    signs = np.sign(regressor.friction_speeds(regressor.positions(samples), samples.qd))
    reversed_at = np.zeros(len(samples), dtype=np.bool_)
    reversed_at[1:] = (signs[1:] * signs[:-1] <= 0).any(axis=1)
    return reversed_at
