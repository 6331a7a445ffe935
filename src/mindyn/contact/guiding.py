"""Hand guiding: the torque that holds the robot, and the friction that can be compensated without driving it.

    tau = h(q) + c tanh(qd / w) + v clip(qd, -u_max, u_max)

h  holding torque of the estimate at standstill: gravity, springs and offsets

If the true holding torque is within d of h and friction is at least f(u) at speed u, the robot gains no energy from tau
as long as c + v |u| + d <= f(u) for all speeds: the remaining friction absorbs the error of h. d is the largest
half-width of the 95 % interval of h, f the lower end of that of friction, both over random poses.

With closed loops and mimic joints, all quantities refer to the primary joints, and f is the friction of their own
drives alone: passive joints also dissipate power in both directions, so that ignoring their friction is safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.values import Array, RandomSource, ShortRepr, seed_from
from mindyn.equations.closed_motion import is_affine
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import Code, InputError
from mindyn.estimators.estimate import Estimate
from mindyn.findings import Finding, Kind, warning
from mindyn.kernels.model import Model

CHECKED_POSES: Final = 100
CHECKED_SPEEDS: Final = 20
MIN_CHECKED_SPEED: Final = 0.02
"""Lowest speed at which friction is checked, rad/s or m/s."""
DEFAULT_MAX_SPEED: Final = 2.0
"""Largest speed of joints without a velocity limit, rad/s or m/s."""
TRANSITION_SPEED: Final = 0.05
"""Width of the transition around zero velocity, rad/s or m/s: below it, little friction is compensated."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HandGuiding(ShortRepr):
    """Friction of a robot that can be compensated safely.

    Attributes
    ----------
    joint_names : tuple of str
    coulomb : ndarray, shape (n,)
        c, N m or N.
    viscous : ndarray, shape (n,)
        v, N m s or N s/m.
    fastest : ndarray, shape (n,)
        u_max, rad/s or m/s.
    holding_uncertainty : ndarray, shape (n,)
        d, possible error of the holding torque, N m or N.
    friction : ndarray, shape (n,)
        Lower end of the 95 % interval of friction, the smallest at any speed, N m or N.
    width : float
        w, rad/s or m/s.
    findings : tuple of Finding
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
        """Return the values in types that JSON can store; None if the estimate does not determine a value."""
        names = ("coulomb", "viscous", "fastest", "holding_uncertainty", "friction")
        arrays = {name: [float(v) if np.isfinite(v) else None for v in getattr(self, name)] for name in names}
        return {"joint_names": list(self.joint_names), **arrays, "width": self.width}


def hand_guiding(estimate: Estimate, *, rng: RandomSource = 0) -> HandGuiding:
    """Compute the part of the friction of an estimate that can be compensated safely.

    Parameters
    ----------
    estimate : Estimate
        Estimate to use.
    rng : int, numpy.random.Generator or None, default 0
        Seed or generator of the random poses; None draws others in every call.

    Returns
    -------
    HandGuiding
        Coulomb and viscous friction of every joint that may be compensated, and findings.
    """
    seed = seed_from(rng)
    robot, regressor = estimate.robot, estimate.regressor
    q = _sample_poses(estimate, np.random.default_rng(seed))
    fastest = np.array([joint.limits.velocity or DEFAULT_MAX_SPEED for joint in robot.primary_joints])
    uncertainty = _holding_uncertainty(estimate, q)
    steps = np.linspace(0.0, 1.0, CHECKED_SPEEDS)[:, None] ** 2 * (fastest - MIN_CHECKED_SPEED) + MIN_CHECKED_SPEED
    least = _least_friction(estimate, q, steps)
    spare = np.where(np.isfinite(uncertainty), least - np.where(np.isfinite(uncertainty), uncertainty, 0.0), 0.0)
    coulomb = np.clip(spare.min(axis=0), 0.0, None)
    viscous = np.where(coulomb > 0, np.clip(((spare - coulomb) / steps).min(axis=0), 0.0, None), 0.0)
    coupled = _coupled_joints(estimate)
    coulomb, viscous = (np.where(coupled, 0.0, values) for values in (coulomb, viscous))
    notes = []
    uncompensated = [name for name, c in zip(regressor.joint_names, coulomb, strict=True) if c == 0]
    if uncompensated:
        message = (
            f"no friction is compensated at {', '.join(uncompensated)}: {_explain_exclusions(estimate, uncertainty)}"
        )
        notes.append(
            warning(
                Kind.MISSING_FRICTION, message, "Identify again from slow motions of these joints in both directions"
            )
        )
    return HandGuiding(
        regressor.joint_names, coulomb, viscous, fastest, uncertainty, least.min(axis=0), findings=tuple(notes)
    )


def _explain_exclusions(estimate: Estimate, uncertainty: Array) -> str:
    if not any(parameter.is_friction for parameter in estimate.parameters):
        return "the estimate has no friction parameters"
    if np.isinf(uncertainty).any():
        return "parts of the holding torque are unidentifiable"
    return "the uncertainty of the holding torque or of the friction exceeds it"


def _sample_poses(estimate: Estimate, rng: np.random.Generator) -> Array:
    """Return positions (N, k) of the primary joints; (N, n) of all joints, closed, if loops must be solved."""
    robot, ends = estimate.robot, []
    for joint in robot.primary_joints:
        wide = np.pi if joint.kind == "revolute" else 0.5
        limits = (joint.limits.lower, joint.limits.upper)
        ends.append([free if end is None else end for free, end in zip((-wide, wide), limits, strict=True)])
    low, high = np.array(ends).T
    p = np.asarray(rng.uniform(low, high, (CHECKED_POSES, len(low))))
    if is_affine(robot):
        return p
    closure = home_closure(robot)
    home = closure.home[list(closure.primary)]
    near = home + rng.uniform(size=(CHECKED_POSES, 1)) * (
        p - home
    )  # around home, if loops close in a small part of the range only
    q, reached = closure.find_reachable(np.vstack([p, near, home[None]]))
    return np.asarray(q[reached][:CHECKED_POSES])


def _rows(estimate: Estimate, q: Array, qd: Array, sign: float) -> Array:
    """Return Y (N, n, p) at speeds without acceleration, with friction in the direction `sign`."""
    regressor = estimate.regressor
    speeds = regressor.friction_speeds(q, qd)
    parts = regressor.parts(q, qd, np.zeros_like(qd), np.full_like(speeds, sign))
    return regressor.dense(parts)


def _holding_uncertainty(estimate: Estimate, q: Array) -> Array:
    """Return the largest half-width (n,) of the 95 % interval of the holding torque."""
    Y = _rows(estimate, q, np.zeros((len(q), estimate.regressor.joint_count)), 0.0)
    return np.array([estimate.half_widths_of(Y[:, j]).max() for j in range(Y.shape[1])])


def _least_friction(estimate: Estimate, q: Array, steps: Array) -> Array:
    """Return the lower end, over both directions and all poses, of the 95 % interval of friction at `steps` (m, n)."""
    names = estimate.regressor.joint_names
    is_friction = np.array(
        [parameter.is_friction and parameter.link_or_joint in names for parameter in estimate.parameters]
    )
    least = np.full(steps.shape, np.inf)
    for k, speeds in enumerate(steps):
        for sign in (1.0, -1.0):
            qd = np.tile(sign * speeds, (len(q), 1))
            Y = np.where(is_friction, _rows(estimate, q, qd, sign), 0.0)
            for j in range(len(speeds)):
                ends = sign * (Y[:, j] @ estimate.beta) - estimate.half_widths_of(Y[:, j])
                least[k, j] = min(least[k, j], float(ends.min()))
    return np.where(np.isfinite(least), least, 0.0)


def _coupled_joints(estimate: Estimate) -> NDArray[np.bool_]:
    """Return whether the friction of each joint (k,) depends on the speeds of other joints through coupled motors."""
    robot = estimate.robot
    is_coupled = np.zeros(len(robot.joints), dtype=np.bool_)
    for drive in robot.drives:
        if others := [robot.joint_index(joint) for joint, ratio in drive.coupling.items() if ratio]:
            is_coupled[[robot.joint_index(drive.joint), *others]] = True
    return is_coupled[[robot.joint_index(name) for name in robot.primary_names]]


class HandGuide:
    """Torque of hand guiding in a control loop: call `torque` once for each sample.

    Parameters
    ----------
    model : Model
        Model of the robot with drives: `compile_model(full_model(estimate, friction="fitted"), drives=True)`.
    part : HandGuiding
        Friction to compensate.

    Raises
    ------
    InputError
        If the model has no drives, or other joints than `part`.
    """

    def __init__(self, model: Model, part: HandGuiding) -> None:
        if not model.drives or part.joint_names != model.robot.primary_names:
            raise InputError(
                "hand guiding needs a model with drives and with the same joints as the compensated friction",
                code=Code.DISAGREEMENT,
                subject="model",
            )
        self.part = part
        self._bias = model.bind("bias")
        self._bias["qd"][:] = 0.0
        self._closure = None if is_affine(model.robot) else home_closure(model.robot)
        if self._closure is not None:
            self._bias["q"][:] = self._closure.home

    def torque(self, q: Array, qd: Array) -> Array:
        """Return the torque (k,) at positions and speeds (k,) of the primary joints; loops follow from call to call.

        Parameters
        ----------
        q, qd : ndarray, shape (k,)
            Positions and speeds of the primary joints.

        Returns
        -------
        ndarray, shape (k,)
            N m or N.
        """
        self._bias["q"][:] = q if self._closure is None else self._closure.continue_from(self._bias["q"], np.asarray(q))
        self._bias()
        part = self.part
        compensation = part.coulomb * np.tanh(np.asarray(qd) / part.width) + part.viscous * np.clip(
            qd, -part.fastest, part.fastest
        )
        return np.asarray(self._bias["tau"] + compensation)
