"""Hand guiding: the torque that carries the arm, and as much of its friction as can be given without driving it.

    tau = h(q) + c tanh(qd / w) + v clip(qd, -u_max, u_max)

h  holding torque: gravity, springs and offsets, the estimate's at standstill

With the true holding torque within d of h and friction of at least f(u) at speed u, the arm gains no energy from tau
as long as c + v |u| + d <= f(u) for all speeds: what is left of friction then holds whatever h has wrong. d is the
greatest half-width of the 95 % interval of h, f the lower end of that of friction, both over random poses.

With closed loops and mimic joints all of it is of the primary joints, and f is the friction of their own drives alone:
that of passive joints takes power, too, whichever way they turn, so that leaving it out of f is safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.findings import Finding, Kind, warning
from mindyn.kernels.model import Model

CHECKED_POSES: Final = 100
CHECKED_SPEEDS: Final = 20
MIN_CHECKED_SPEED: Final = 0.02
"""rad/s or m/s, of the speeds at which friction is looked at."""
DEFAULT_MAX_SPEED: Final = 2.0
"""rad/s or m/s of joints without a stated limit."""
TRANSITION_SPEED: Final = 0.05
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
    holding_uncertainty: Array
    friction: Array
    width: float = TRANSITION_SPEED
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; None where the estimate cannot tell."""
        names = ("coulomb", "viscous", "fastest", "holding_uncertainty", "friction")
        arrays = {name: [float(v) if np.isfinite(v) else None for v in getattr(self, name)] for name in names}
        return {"joint_names": list(self.joint_names), **arrays, "width": self.width}


def hand_guiding(estimate: Estimate, *, seed: int = 0) -> HandGuiding:
    """The safe part of an estimate's friction."""
    robot, regressor = estimate.robot, estimate.regressor
    q = _sample_poses(estimate, np.random.default_rng(seed))
    fastest = np.array([joint.limits.velocity or DEFAULT_MAX_SPEED for joint in robot.primary_joints])
    doubt = _holding_uncertainty(estimate, q)
    least = _least_friction(estimate, q, fastest)
    steps = np.linspace(0.0, 1.0, CHECKED_SPEEDS)[:, None] ** 2 * (fastest - MIN_CHECKED_SPEED) + MIN_CHECKED_SPEED
    spare = np.where(np.isfinite(doubt), least - np.where(np.isfinite(doubt), doubt, 0.0), 0.0)
    coulomb = np.clip(spare.min(axis=0), 0.0, None)
    viscous = np.where(coulomb > 0, np.clip(((spare - coulomb) / steps).min(axis=0), 0.0, None), 0.0)
    coupled = _coupled_joints(estimate)
    coulomb, viscous = (np.where(coupled, 0.0, one) for one in (coulomb, viscous))
    notes = []
    bare = [name for name, c in zip(regressor.joint_names, coulomb, strict=True) if c == 0]
    if bare:
        message = f"no friction is compensated at {', '.join(bare)}: {_explain_exclusions(estimate, doubt)}"
        notes.append(warning(Kind.MISSING_FRICTION, message))
    return HandGuiding(
        regressor.joint_names, coulomb, viscous, fastest, doubt, least.min(axis=0), findings=tuple(notes)
    )


def _explain_exclusions(estimate: Estimate, holding_uncertainty: Array) -> str:
    if not any(one.is_friction for one in estimate.parameters):
        return "the estimate has no friction"
    if np.isinf(holding_uncertainty).any():
        return "the holding torque has parts that the estimate cannot tell"
    return "what the holding torque may have wrong, or the friction's own interval, takes all of it"


def _sample_poses(estimate: Estimate, rng: np.random.Generator) -> Array:
    """Positions (N, k) of the primary joints; (N, n) of all, closed, where loops are solved for."""
    robot, ends = estimate.robot, []
    for joint in robot.primary_joints:
        wide = np.pi if joint.kind == "revolute" else 0.5
        ends.append(
            (
                -wide if joint.limits.lower is None else joint.limits.lower,
                wide if joint.limits.upper is None else joint.limits.upper,
            )
        )
    low, high = np.array(ends).T
    p = np.asarray(rng.uniform(low, high, (CHECKED_POSES, len(low))))
    if is_affine(robot):
        return p
    closure = home_closure(robot)
    home = closure.home[list(closure.primary)]
    near = home + rng.uniform(size=(CHECKED_POSES, 1)) * (p - home)  # where little of the range closes, around home
    q, reached = closure.find_reachable(np.vstack([p, near, home[None]]))
    return np.asarray(q[reached][:CHECKED_POSES])


def _rows(estimate: Estimate, q: Array, qd: Array, sign: float) -> Array:
    """Y (N, n, p) at speeds without acceleration, friction acting with `sign`."""
    regressor = estimate.regressor
    speeds = regressor.friction_speeds(q, qd)
    parts = regressor.parts(q, qd, np.zeros_like(qd), np.full_like(speeds, sign))
    return regressor.dense(parts)


def _holding_uncertainty(estimate: Estimate, q: Array) -> Array:
    """(n,) greatest half-width of the holding torque's 95 % interval."""
    Y = _rows(estimate, q, np.zeros((len(q), estimate.regressor.joint_count)), 0.0)
    return np.array([estimate.half_widths_of(Y[:, j]).max() for j in range(Y.shape[1])])


def _least_friction(estimate: Estimate, q: Array, fastest: Array) -> Array:
    """(speeds, n) lower end of friction's 95 % interval, the least of both directions and all poses."""
    kept = estimate.regressor.joint_names
    brakes = np.array([one.is_friction and one.link_or_joint in kept for one in estimate.parameters])
    found = np.full((CHECKED_SPEEDS, len(fastest)), np.inf)
    for k, part in enumerate(np.linspace(0.0, 1.0, CHECKED_SPEEDS) ** 2):
        for sign in (1.0, -1.0):
            qd = np.broadcast_to(
                sign * (part * (fastest - MIN_CHECKED_SPEED) + MIN_CHECKED_SPEED), (len(q), len(fastest))
            )
            Y = np.where(brakes, _rows(estimate, q, np.ascontiguousarray(qd), sign), 0.0)
            for j in range(len(fastest)):
                ends = sign * (Y[:, j] @ estimate.beta) - estimate.half_widths_of(Y[:, j])
                found[k, j] = min(found[k, j], float(ends.min()))
    return np.where(np.isfinite(found), found, 0.0)


def _coupled_joints(estimate: Estimate) -> NDArray[np.bool_]:
    """(k,) joints whose friction depends on other joints' speeds: motors that are carried along, or carry others."""
    robot = estimate.robot
    found = np.zeros(robot.joint_count, dtype=np.bool_)
    for drive in robot.drives:
        if others := [robot.joint_index(joint) for joint, ratio in drive.coupling.items() if ratio]:
            found[[robot.joint_index(drive.joint), *others]] = True
    return found[[robot.joint_index(name) for name in robot.primary_names]]


class HandGuide:
    """The torque of hand guiding in a control loop: `torque(q, qd)` once for each sample.

    model  of the arm with its drives, as `compile_model(full_model(estimate, friction="fitted"), drives=True)` gives
    """

    def __init__(self, model: Model, part: HandGuiding) -> None:
        if not model.drives or part.joint_names != model.robot.primary_names:
            raise InputError("hand guiding needs a model with drives, of the joints that its friction is of")
        self.part = part
        self._bias = model.bind("bias")
        self._bias["qd"][:] = 0.0
        self._closure = None if is_affine(model.robot) else home_closure(model.robot)
        if self._closure is not None:
            self._bias["q"][:] = self._closure.home

    def torque(self, q: Array, qd: Array) -> Array:
        """(k,) N m or N, of positions and speeds (k,) of the primary joints; loops are followed from call to call."""
        self._bias["q"][:] = q if self._closure is None else self._closure.continue_from(self._bias["q"], np.asarray(q))
        self._bias()
        part = self.part
        given = part.coulomb * np.tanh(np.asarray(qd) / part.width) + part.viscous * np.clip(
            qd, -part.fastest, part.fastest
        )
        return np.asarray(self._bias["tau"] + given)
