"""`FleetCause`: a way in which a robot may differ from its type, as directions of the parameters and zeros.

A cause has a size, its first direction; further directions may come with it (a payload of some mass has its centre and
inertia somewhere). Everything a log says about all causes is then two small arrays (`LogEvidence`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.estimators.estimate import Estimate
from mindyn.fleet.zero_columns import ZeroRegressor
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.regression.information import Information

CauseKind = Literal["friction", "offset", "zero", "payload"]
MIN_TORQUE_RATIO: Final = 1e-9
"""Part of the largest below which a direction's share of the torque counts as none."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetCause:
    """One way to differ.

    what     kind of cause
    where    the joint, or the link that a payload hangs on
    unit     of its size; of friction, parts of the type's own
    columns  numbers of its directions in `FleetCauses.directions`, that of its size first
    drifts   whether it may grow with time by itself
    """

    what: CauseKind
    where: str
    unit: str
    columns: tuple[int, ...]
    drifts: bool


@dataclass(frozen=True, slots=True, eq=False)
class FleetCauses:
    """All causes of a type.

    listed      the causes
    individual  what healthy robots differ by as well, each friction and offset: free wherever another cause is judged
    directions  (P, K) in parameters and zeros
    """

    listed: tuple[FleetCause, ...]
    individual: tuple[FleetCause, ...]
    directions: Array


@dataclass(frozen=True, slots=True, eq=False)
class LogEvidence:
    """What one log says about the sizes a (K,) of all directions: minimise a^T H a - 2 s^T a.

    H    (K, K) D^T X^T W X D
    s    (K,) D^T X^T W (tau - X beta of the type)
    day  when
    """

    H: Array
    s: Array
    day: float


def list_causes(regressor: ZeroRegressor, found: Estimate, total: Information) -> FleetCauses:
    """The causes that show in the torque of the fleet's motions.

    found  the type's estimate
    total  all logs, zeros' columns included
    """
    count = len(regressor.names)
    made: list[_CauseDraft] = []
    individual: list[_CauseDraft] = []
    for joint in regressor.joint_names:
        own = [
            k for k, one in enumerate(regressor.parameters) if (one.kind != "link", one.link_or_joint) == (True, joint)
        ]
        friction = [k for k in own if regressor.parameters[k].is_friction]
        individual += [("friction", joint, "", [_unit_direction(count, k)], False) for k in friction]
        growth = np.zeros(count)
        growth[friction] = found.beta[friction]
        made.append(("friction", joint, "", [growth], True))
        for k in own:
            if regressor.parameters[k].kind == "offset":
                made.append(("offset", joint, regressor.parameters[k].unit, [_unit_direction(count, k)], True))
                individual.append(("offset", joint, "", [_unit_direction(count, k)], False))
    for k, joint in enumerate(regressor.zeros, start=regressor.plain_count):
        unit = "rad" if regressor.robot.joints[regressor.robot.joint_names.index(joint)].kind != "prismatic" else "m"
        made.append(("zero", joint, unit, [_unit_direction(count, k)], True))
    for link in _last_links(regressor):
        made.append(
            ("payload", regressor.robot.links[link].name, "kg", _payload_directions(regressor, link, total), False)
        )
    weights = np.ones(len(total.factors)) if found.joint_weights is None else np.asarray(found.joint_weights)
    R, z = total.stacked(weights)
    listed, directions = _number_causes(made, R, float(np.linalg.norm(z)), 0)
    free, more = _number_causes(individual, R, float(np.linalg.norm(z)), len(directions))
    return FleetCauses(listed, free, np.array([*directions, *more]).reshape(-1, count).T)


_CauseDraft = tuple[CauseKind, str, str, list[Array], bool]


def _unit_direction(count: int, k: int) -> Array:
    made = np.zeros(count)
    made[k] = 1.0
    return made


def _last_links(regressor: ZeroRegressor) -> list[int]:
    """Numbers of the moving links that no joint leads on from."""
    robot = regressor.robot
    if robot.has_dependents:
        return []
    parents = {joint.parent for joint in robot.joints}
    return [k for k, link in enumerate(robot.links) if link.name not in parents]


def _payload_directions(regressor: ZeroRegressor, link: int, total: Information) -> list[Array]:
    """What a body on a link adds: its mass, then the directions of moments and inertia that the motions tell apart."""
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
    made: list[_CauseDraft], R: Array, power: float, first: int
) -> tuple[tuple[FleetCause, ...], list[Array]]:
    """The causes whose size shows in the rows of R, beside the directions that come with it; numbered from `first`."""
    listed: list[FleetCause] = []
    directions: list[Array] = []
    for what, where, unit, own, drifts in made:
        seen = np.column_stack([R @ one for one in own])
        size = seen[:, 0]
        if len(own) > 1:
            Q, _ = np.linalg.qr(seen[:, 1:])
            size = size - Q @ (Q.T @ size)
        if np.linalg.norm(size) <= MIN_TORQUE_RATIO * power:
            continue
        start = first + len(directions)
        listed.append(FleetCause(what, where, unit, tuple(range(start, start + len(own))), drifts))
        directions += own
    return tuple(listed), directions


def summarise_evidence(
    information: Information, causes: FleetCauses, beta: Array, weights: Array, day: float
) -> LogEvidence:
    """What one log says at the type's values; beta (P,), zero for the zeros."""
    K = causes.directions.shape[1]
    H, s = np.zeros((K, K)), np.zeros(K)
    for columns, factor, weight in zip(information.columns, information.factors, weights, strict=True):
        X = factor[:, :-1] @ causes.directions[columns]
        left = factor[:, -1] - factor[:, :-1] @ beta[columns]
        H += weight * (X.T @ X)
        s += weight * (X.T @ left)
    return LogEvidence(H, s, day)
