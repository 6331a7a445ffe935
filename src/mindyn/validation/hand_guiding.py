"""Hand guiding: the torque that carries the arm, and as much of its friction as can be given without driving it.

    tau = h(q) + c tanh(qd / w) + v clip(qd, -u_max, u_max)

h  holding torque: gravity, springs and offsets, the estimate's at standstill

With the true holding torque within d of h and friction of at least f(u) at speed u, the arm gains no energy from tau
as long as c + v |u| + d <= f(u) for all speeds: what is left of friction then holds whatever h has wrong. d is the
greatest half-width of the 95 % interval of h, f the lower end of that of friction, both over random poses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.kernels.model import Model
from mindyn.notes import Note

CHECKED_POSES: Final = 100
CHECKED_SPEEDS: Final = 20
SLOWEST: Final = 0.02
"""rad/s or m/s, of the speeds at which friction is looked at."""
USUAL_SPEED: Final = 2.0
"""rad/s or m/s of joints without a stated limit."""
WIDTH: Final = 0.05
"""rad/s or m/s in which the compensation turns over: below it friction is hardly given back, so that the arm rests."""


@dataclass(frozen=True, slots=True, eq=False)
class HandGuiding:
    """What of an arm's friction may be compensated.

    coulomb    (n,) N m or N: c
    viscous    (n,) N m s or N s/m: v
    fastest    (n,) rad/s or m/s: u_max
    doubt      (n,) N m or N: d, what the holding torque may have wrong
    friction   (n,) N m or N: the least friction that the estimate is sure of, at any speed
    """

    joint_names: tuple[str, ...]
    coulomb: Array
    viscous: Array
    fastest: Array
    doubt: Array
    friction: Array
    width: float = WIDTH
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; None where the estimate cannot tell."""
        names = ("coulomb", "viscous", "fastest", "doubt", "friction")
        arrays = {name: [float(v) if np.isfinite(v) else None for v in getattr(self, name)] for name in names}
        return {"joint_names": list(self.joint_names), **arrays, "width": self.width}


def hand_guiding(estimate: Estimate, *, seed: int = 0) -> HandGuiding:
    """The safe part of an estimate's friction."""
    robot, regressor = estimate.robot, estimate.regressor
    if robot.has_dependents:
        raise InputError(f"robot {robot.name!r} has {robot.dependence}: hand guiding is made for arms without")
    q = _poses(estimate, np.random.default_rng(seed))
    fastest = np.array([joint.limits.velocity or USUAL_SPEED for joint in robot.joints])
    doubt = _holding_doubt(estimate, q)
    least = _least_friction(estimate, q, fastest)
    steps = np.linspace(0.0, 1.0, CHECKED_SPEEDS)[:, None] ** 2 * (fastest - SLOWEST) + SLOWEST
    spare = np.where(np.isfinite(doubt), least - np.where(np.isfinite(doubt), doubt, 0.0), 0.0)
    coulomb = np.clip(spare.min(axis=0), 0.0, None)
    viscous = np.where(coulomb > 0, np.clip(((spare - coulomb) / steps).min(axis=0), 0.0, None), 0.0)
    coupled = _coupled(estimate)
    coulomb, viscous = (np.where(coupled, 0.0, one) for one in (coulomb, viscous))
    notes = []
    bare = [name for name, c in zip(regressor.joint_names, coulomb, strict=True) if c == 0]
    if bare:
        notes.append(Note("hand guiding", f"no friction is compensated at {', '.join(bare)}: {_why(estimate, doubt)}"))
    return HandGuiding(regressor.joint_names, coulomb, viscous, fastest, doubt, least.min(axis=0), notes=tuple(notes))


def _why(estimate: Estimate, doubt: Array) -> str:
    if not any(one.brakes for one in estimate.parameters):
        return "the estimate has no friction"
    if np.isinf(doubt).any():
        return "the holding torque has parts that the estimate cannot tell"
    return "what the holding torque may have wrong, or the friction's own interval, takes all of it"


def _poses(estimate: Estimate, rng: np.random.Generator) -> Array:
    ends = []
    for joint in estimate.robot.joints:
        wide = np.pi if joint.kind == "revolute" else 0.5
        ends.append(
            (
                -wide if joint.limits.lower is None else joint.limits.lower,
                wide if joint.limits.upper is None else joint.limits.upper,
            )
        )
    low, high = np.array(ends).T
    return np.asarray(rng.uniform(low, high, (CHECKED_POSES, len(low))))


def _rows(estimate: Estimate, q: Array, qd: Array, sign: float) -> Array:
    """Y (N, n, p) at speeds without acceleration, friction acting with `sign`."""
    regressor = estimate.regressor
    speeds = regressor.friction_speeds(q, qd)
    parts = regressor.parts(q, qd, np.zeros_like(q), np.full_like(speeds, sign))
    return regressor.dense(parts)


def _holding_doubt(estimate: Estimate, q: Array) -> Array:
    """(n,) greatest half-width of the holding torque's 95 % interval."""
    Y = _rows(estimate, q, np.zeros_like(q), 0.0)
    return np.array([estimate.half_widths_of(Y[:, j]).max() for j in range(Y.shape[1])])


def _least_friction(estimate: Estimate, q: Array, fastest: Array) -> Array:
    """(speeds, n) lower end of friction's 95 % interval, the least of both directions and all poses."""
    brakes = np.array([one.brakes for one in estimate.parameters])
    found = np.full((CHECKED_SPEEDS, len(fastest)), np.inf)
    for k, part in enumerate(np.linspace(0.0, 1.0, CHECKED_SPEEDS) ** 2):
        for sign in (1.0, -1.0):
            qd = np.broadcast_to(sign * (part * (fastest - SLOWEST) + SLOWEST), q.shape)
            Y = np.where(brakes, _rows(estimate, q, np.ascontiguousarray(qd), sign), 0.0)
            for j in range(len(fastest)):
                ends = sign * (Y[:, j] @ estimate.beta) - estimate.half_widths_of(Y[:, j])
                found[k, j] = min(found[k, j], float(ends.min()))
    return np.where(np.isfinite(found), found, 0.0)


def _coupled(estimate: Estimate) -> Array:
    """(n,) joints whose friction depends on other joints' speeds: motors that are carried along."""
    G = estimate.robot.gear_matrix if estimate.robot.drives else np.eye(len(estimate.robot.joints))
    off = G - np.diag(np.diag(G))
    return np.asarray(off.any(axis=0) | off.any(axis=1))


class HandGuide:
    """The torque of hand guiding in a control loop: `torque(q, qd)` once for each sample.

    model  of the arm with its drives, as `compile_model(full_model(estimate, friction="fitted"), drives=True)` gives
    """

    def __init__(self, model: Model, part: HandGuiding) -> None:
        if not model.drives or part.joint_names != model.robot.joint_names:
            raise InputError("hand guiding needs a model with drives, of the joints that its friction is of")
        self.part = part
        self._bias = model.bind("bias")
        self._bias["qd"][:] = 0.0

    def torque(self, q: Array, qd: Array) -> Array:
        """(n,) N m or N."""
        self._bias["q"][:] = q
        self._bias()
        part = self.part
        given = part.coulomb * np.tanh(np.asarray(qd) / part.width) + part.viscous * np.clip(
            qd, -part.fastest, part.fastest
        )
        return np.asarray(self._bias["tau"] + given)
