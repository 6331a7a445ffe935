"""`FleetCause`: how a robot may differ from its type, as directions in the space of parameters and joint zeros.

A cause has a size along its first direction; further directions may belong to it (a payload of some mass also has a
centre and an inertia). The information of a log about all causes then is two small arrays (`LogEvidence`).

Columns d tau / d q0: the torque caused by an offset q0 of a joint zero, at the values of the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import casadi
import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.identification.estimators.estimate import Estimate
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.model import compile_model
from mindyn.regression.information import Information
from mindyn.regression.regressor import Parts, Regressor
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

ZERO_PREFIX: Final = "zero of "
"""Prefix of the joint in the name of a column."""


class ZeroRegressor(Regressor):
    """Regressor with n more columns: tau = Y beta + (d tau / d q)(reference) q0, q0 = true minus logged position.

    reference  (p,) values at which the derivative is evaluated
    zeros      names of the joints whose zero affects the torque

    Robots whose joints depend on one another (loops, mimics) have no such columns.
    """

    def __init__(self, robot: Robot, settings: EquationSettings, reference: Array) -> None:
        super().__init__(robot, settings.shape)
        self.reference = np.ascontiguousarray(reference[: self.base.count])
        self.plain_count = self.count
        self.zeros: tuple[str, ...] = ()
        if robot.has_dependents:
            return
        self._slopes = Kernel(_build_slopes(robot, self), shared=["beta"], compact=["slopes"], matrices=["slopes"])
        rows, by = np.divmod(self._slopes.nonzeros("slopes"), len(self.joint_names))
        seen, number = np.unique(by, return_inverse=True)
        self.zeros = tuple(self.joint_names[j] for j in seen)
        self._slope_starts = np.searchsorted(rows, np.arange(self.joint_count + 1))
        added = np.split(self.plain_count + number, self._slope_starts[1:-1])
        self.columns = tuple(np.concatenate(both) for both in zip(self.columns, added, strict=True))
        self.names = (*self.names, *(f"{ZERO_PREFIX}{joint}" for joint in self.zeros))

    @property
    def count(self) -> int:
        """Return the number of columns."""
        return len(self.names)

    def parts(
        self, q: Array, qd: Array, qdd: Array, directions: Array | None = None, out: Array | None = None
    ) -> Parts:
        """Return the columns of the regressor, followed by those of the zeros."""
        columns = super().parts(q, qd, qdd, directions, out)
        if self.zeros:
            slopes = self._slopes(q, qd, qdd, self.reference)
            for joint, arrays in enumerate(columns):
                arrays.append(slopes[:, self._slope_starts[joint] : self._slope_starts[joint + 1]])
        return columns

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the constructor."""
        return ZeroRegressor, (self.robot, EquationSettings(friction=self.friction), self.reference)


def _build_slopes(robot: Robot, regressor: Regressor) -> Any:
    """Return the `casadi.Function` (q, qd, qdd, beta) -> d (Y beta) / d q."""
    Y = compile_model(robot, with_drives=regressor.base.with_drives, base=regressor.base).casadi("regressor")
    motion = [casadi.SX.sym(name, len(robot.joint_names)) for name in ("q", "qd", "qdd")]
    beta = casadi.SX.sym("beta", regressor.base.count)
    slopes = casadi.cse(casadi.jacobian(Y(*motion) @ beta, motion[0]))
    return casadi.Function("zero_columns", [*motion, beta], [slopes], ["q", "qd", "qdd", "beta"], ["slopes"])


CauseKind = Literal["friction", "offset", "zero", "payload"]
MIN_TORQUE_RATIO: Final = 1e-9
"""Torque of a direction relative to the largest below which it counts as zero."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetCause:
    """Possible difference of a robot from its type.

    what     kind of cause
    where    joint, or link that carries a payload
    unit     unit of its size; empty for friction, whose size is relative to that of the type
    columns  numbers of its directions in `FleetCauses.directions`, that of its size first
    drifts   whether it may grow with time
    """

    what: CauseKind
    where: str
    unit: str
    columns: tuple[int, ...]
    drifts: bool


@dataclass(frozen=True, slots=True, eq=False)
class FleetCauses:
    """All causes of a type.

    listed      causes that are tested
    individual  friction and offset of each joint, in which healthy robots differ too: free in all tests
    directions  (P, K) in parameters and zeros
    """

    listed: tuple[FleetCause, ...]
    individual: tuple[FleetCause, ...]
    directions: Array


@dataclass(frozen=True, slots=True, eq=False)
class LogEvidence:
    """Information of one log about the sizes a (K,) of all directions: minimise a^T H a - 2 s^T a.

    H    (K, K) D^T X^T W X D
    s    (K,) D^T X^T W (tau - X beta of the type)
    day  when
    """

    H: Array
    s: Array
    day: float


def list_causes(regressor: ZeroRegressor, estimate: Estimate, total: Information) -> FleetCauses:
    """Return the causes that affect the torque of the motions of the fleet.

    estimate  estimate of the robot type
    total     information of all logs, with columns for joint zeros
    """
    count = len(regressor.names)
    units = np.eye(count)
    drafts: list[_CauseDraft] = []
    individual: list[_CauseDraft] = []
    for joint in regressor.joint_names:
        columns = [k for k, parameter in enumerate(regressor.parameters) if parameter.link_or_joint == joint]
        friction = [k for k in columns if regressor.parameters[k].is_friction]
        individual += [("friction", joint, "", [units[k]], False) for k in friction]
        growth = np.zeros(count)
        growth[friction] = estimate.beta[friction]
        drafts.append(("friction", joint, "", [growth], True))
        for k in columns:
            if regressor.parameters[k].kind == "offset":
                drafts.append(("offset", joint, regressor.parameters[k].unit, [units[k]], True))
                individual.append(("offset", joint, "", [units[k]], False))
    for k, joint in enumerate(regressor.zeros, start=regressor.plain_count):
        unit = "rad" if regressor.robot.joints[regressor.robot.joint_names.index(joint)].kind != "prismatic" else "m"
        drafts.append(("zero", joint, unit, [units[k]], True))
    parents = {joint.parent for joint in regressor.robot.joints}
    for k, link in enumerate(regressor.robot.links):
        if link.name not in parents and not regressor.robot.has_dependents:
            drafts.append(("payload", link.name, "kg", _observable_payload_directions(regressor, k, total), False))
    weights = (
        np.ones(len(total.factors)) if estimate.data.joint_weights is None else np.asarray(estimate.data.joint_weights)
    )
    R, z = total.stacked(weights)
    listed, directions = _number_causes(drafts, R, float(np.linalg.norm(z)), 0)
    free, more = _number_causes(individual, R, float(np.linalg.norm(z)), len(directions))
    return FleetCauses(listed, free, np.array([*directions, *more]).reshape(-1, count).T)


_CauseDraft = tuple[CauseKind, str, str, list[Array], bool]


def _observable_payload_directions(regressor: ZeroRegressor, link: int, total: Information) -> list[Array]:
    """Return the directions in which a payload on a link changes the parameters: its mass, then the observable
    combinations of its first moments and inertia.
    """
    start = PARAMETERS_PER_LINK * link
    D = np.zeros((len(regressor.names), PARAMETERS_PER_LINK))
    D[: regressor.base.count] = regressor.base.matrix[:, start : start + PARAMETERS_PER_LINK]
    R, _ = total.stacked()
    seen = R @ D[:, 1:]
    sizes = np.linalg.norm(seen, axis=0)
    kept = sizes > MIN_TORQUE_RATIO * max(float(np.linalg.norm(R @ D[:, 0])), float(sizes.max(initial=0.0)))
    rest = D[:, 1:][:, kept] / sizes[kept]
    _, s, Vt = np.linalg.svd(R @ rest, full_matrices=False)
    clear = s > 1e-6 * s.max(initial=0.0)
    return [D[:, 0], *(rest @ (Vt[clear].T / s[clear])).T]


def _number_causes(
    drafts: list[_CauseDraft], R: Array, power: float, first: int
) -> tuple[tuple[FleetCause, ...], list[Array]]:
    """Number the causes whose size affects the rows of R independently of their further directions."""
    listed: list[FleetCause] = []
    directions: list[Array] = []
    for what, where, unit, own_directions, drifts in drafts:
        seen = np.column_stack([R @ direction for direction in own_directions])
        size = seen[:, 0]
        if len(own_directions) > 1:
            Q, _ = np.linalg.qr(seen[:, 1:])
            size = size - Q @ (Q.T @ size)
        if np.linalg.norm(size) <= MIN_TORQUE_RATIO * power:
            continue
        start = first + len(directions)
        listed.append(FleetCause(what, where, unit, tuple(range(start, start + len(own_directions))), drifts))
        directions += own_directions
    return tuple(listed), directions


def summarise_evidence(
    information: Information, causes: FleetCauses, beta: Array, weights: Array, day: float
) -> LogEvidence:
    """Return the information of one log at the values of the type; beta (P,) is zero for the zeros."""
    K = causes.directions.shape[1]
    H, s = np.zeros((K, K)), np.zeros(K)
    for columns, factor, weight in zip(information.columns, information.factors, weights, strict=True):
        X = factor[:, :-1] @ causes.directions[columns]
        left = factor[:, -1] - factor[:, :-1] @ beta[columns]
        H += weight * (X.T @ X)
        s += weight * (X.T @ left)
    return LogEvidence(H, s, day)
