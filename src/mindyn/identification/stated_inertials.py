"""The log beside the inertials that the robot's own file states: which of the user's statements must be wrong.

A file's masses are hardly ever right, but they are right enough: on sound logs of four measured arms the torque of the
joints that carry weight is 0.85 to 2 times (2 with a payload that the file does not know) that of the file's inertials
plus friction, and that explains all but 7 to 14 % of it. A zero that is off, a sign turned around, currents taken for
torques, a gravity that points elsewhere: each makes the two disagree in its own way, and a correction cures it.

    tau_j = s_j T_j(q + delta, qd, qdd; g) + fv qd_j + fc tanh(qd_j / w) + fo + I qdd_j,   j in the strong joints

T  inverse dynamics of the file's inertials; strong joints are those where T is large. The misfit of a hypothesis is the
mean over the strong joints of the power of the residual to that of the torque, both without what friction, offset and
rotor explain alone; arithmetic, and geometric, in which a joint whose masses the file has badly hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import sqrt
from typing import Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.identification.file_comparison import Comparison, comparison_of
from mindyn.logs.samples import Samples
from mindyn.robots.robot import Robot

Kind = Literal["joint zero", "torque sign", "torque unit", "motor current", "gravity", "column order"]

EXPLAINED: Final = 0.4
"""Root of the misfit up to which the log and the file's inertials agree on the shape of the torque."""
CURED: Final = (0.6, 0.7)
"""Parts of its misfits to one of which a statement must come down by a correction to be called wrong. Sound measured
logs: 0.83 and more, sound ones of random arms 0.8; a zero 10 degrees off: 0.1 to 0.63."""
LEAST_ZERO_DEG: Final = (6.0, 20.0)
"""A centre of mass whose direction is off by less is the file's error as well as the encoder's: at a joint that carries
other strong joints, and at the last one, whose zero its own link's centre of mass can make up for."""
CENTRE_M: Final = 0.03
"""m by which a file's centres of mass are off, twice their deviation of 1.5 cm, since the worst of several joints
speaks: seen from the axis, an angle that is no zero's."""
MASSES: Final = 1.1
"""Multiple of its misfit that the file's masses count with as the cause: a zero that explains as much is said."""
NOTICED: Final = 0.09
"""Root of the misfit below which no zero is doubted: 10 degrees make 0.16 and more on measured arms."""
UPSET: Final = 0.3
"""Root of the misfit from which a sign, an order or the gravity may be wrong; a zero that is off by less than
`NEAR_DEG` shows below it."""
NEAR_DEG: Final = 22.5
TURNS: Final = 4
"""Times that slopes and gravity are fitted in turn."""
DIRECTED: Final = 1.2
"""Multiple of its misfit that a gravity of any direction counts with: two numbers explain more than the zero of one
joint, or gravity along an axis of the base, by chance."""
LEVEL: Final = 0.2
"""Part of g by which gravity may be off an axis of the base to be taken as along it."""
SCALES: Final = (1 / 3, 3.0)
"""Slopes between these are a file's inaccurate masses or a payload."""
THOUSAND: Final = (200.0, 5000.0)
ABSENT_GRAVITY: Final = (
    "was it taken out before the torque was logged (a compensated command, an external torque), or does a spring or "
    "counterweight balance the arm? log the torque of the motors or of the joints' sensors, or state --gravity 0 0 0 "
    "for a model of the rest"
)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A statement about the log or the robot that must be wrong.

    kind    what is suspected
    joints  at which joints; empty: all
    value   the zero's error (rad or m), the factor of the torque, 0 where there is no number
    sentence  what was seen, and what would cure it
    """

    kind: Kind
    joints: tuple[str, ...]
    value: float
    sentence: str


def suspicions(robot: Robot, samples: Samples) -> list[Suspicion]:
    """Statements that the file's inertials contradict; none where it states no inertials to believe in."""
    compared = comparison_of(robot, samples)
    if compared is None:
        return []
    T = compared.file_torque()
    stated = compared.misfit(T)
    if sqrt(stated.min()) < EXPLAINED and (scale := _scale(compared.slopes(T))):
        return [scale]
    if sqrt(stated.min()) > UPSET and compared.is_weightless(T):
        return [
            Suspicion(
                "gravity", (), 0.0, f"the torque holds nothing of the weight of the file's masses: {ABSENT_GRAVITY}"
            )
        ]
    cures = list(_cures(compared, T, stated))
    for kind, part in enumerate(CURED):
        best = min(cures, key=lambda one: float(one[0][1, kind]), default=None)
        if best is not None and best[1] is not None:
            before, left = best[0][:, kind]
            if left < min(part * before, EXPLAINED**2):
                return [best[1]]
    return []


def agreement(robot: Robot, samples: Samples) -> tuple[float, Array] | None:
    """Misfit of the log to the file's inertials, and slopes of the strong joints' torques; None without inertials."""
    compared = comparison_of(robot, samples)
    if compared is None:
        return None
    T = compared.file_torque()
    return float(compared.misfit(T)[0]), compared.slopes(T)


def _scale(slopes: Array) -> Suspicion | None:
    """A torque that has the right shape and a size that neither a file's masses nor a payload explain."""
    if SCALES[0] <= slopes.max() and slopes.min() <= SCALES[1]:
        return None
    factor = float(np.exp(np.log(slopes).mean()))
    size = f"the torque is {factor:.3g} times that of the file's masses on this motion"
    if THOUSAND[0] < factor < THOUSAND[1]:
        return Suspicion("torque unit", (), factor, f'{size}: is it in mN m? state units.torque = "mN m"')
    if THOUSAND[0] < 1 / factor < THOUSAND[1]:
        return Suspicion("torque unit", (), factor, f'{size}: is it in kN m, or in N m where "mN m" is stated?')
    if factor > 1:
        return Suspicion("torque unit", (), factor, f"{size}: was a gear ratio applied twice, or another unit meant?")
    return Suspicion(
        "motor current",
        (),
        factor,
        f"{size}: is it a motor current, or a motor's torque before its gear? state the drive gains in N m per A, or "
        'side = "motor" and the gears',
    )


def _cures(compared: Comparison, T: Array, stated: Array) -> Iterator[tuple[Array, Suspicion | None]]:
    """Corrections of one statement, each with misfits before and after (2, 2); None: of the file's masses."""
    names = compared.robot.joint_names
    strong = compared.strong(T)
    if sqrt(stated[0]) > NOTICED:
        for joint in strong:
            yield _zero(compared, joint, T, LEAST_ZERO_DEG[joint == strong[-1]])
        yield from _tilted(compared, T)
    if sqrt(stated[0]) < UPSET:
        return
    for joint in strong:
        signs = np.ones(len(names))
        signs[joint] = -1.0
        yield (
            compared.cured(T, T, signs * compared.tau),
            Suspicion(
                "torque sign",
                (names[joint],),
                -1.0,
                f"the torque of joint {names[joint]} is the opposite of what the file's masses need: turn the sign of "
                "its torque column around (or that of its position, where its axis is counted the other way)",
            ),
        )
    yield from _turned_over(compared, T)
    for one, other in combinations(range(len(names)), 2):
        order = list(range(len(names)))
        order[one], order[other] = other, one
        both = f"{names[one]} and {names[other]}"
        yield (
            compared.cured(T, T, compared.tau[:, order]),
            Suspicion("column order", (names[one], names[other]), 0.0, f"the torques of {both} seem to be swapped"),
        )


def _tilted(compared: Comparison, T: Array) -> Iterator[tuple[Array, Suspicion]]:
    """Gravity of any direction, as of a base that is not level: the one that the torque fits best.

    The torque is linear in it, but for the joints' slopes: both are fitted in turn.
    """
    gravity = compared.robot.gravity
    size, slopes = float(np.linalg.norm(gravity)), dict.fromkeys(compared.strong(T), 1.0)
    if not size > 0 or len(slopes) < 2:
        return
    weightless = compared.file_torque(np.zeros(3))
    weights = [compared.file_torque(one) - weightless for one in np.eye(3)]
    other = gravity
    for _ in range(TURNS):
        columns, left = [], []
        for joint, slope in slopes.items():
            others, tau = compared.others[joint], compared.tau[:, joint]
            block = np.column_stack(
                [slope * weight[:, joint] for weight in weights] + [tau - slope * weightless[:, joint]]
            )
            block = (block - others @ (others.T @ block)) / np.linalg.norm(tau - others @ (others.T @ tau))
            columns.append(block[:, :3])
            left.append(block[:, 3])
        found = np.linalg.lstsq(np.vstack(columns), np.concatenate(left), rcond=None)[0]
        if not np.linalg.norm(found) > 0:
            return
        other = found * size / np.linalg.norm(found)
        bent = weightless + np.einsum("k,kij->ij", other, np.array(weights))
        slopes = {joint: compared.against(joint, compared.tau[:, joint], bent[:, joint])[0] for joint in slopes}
    degrees = float(np.rad2deg(np.arccos(np.clip(other @ gravity / size**2, -1.0, 1.0))))
    main = int(np.argmax(np.abs(other)))
    along = size * np.sign(other[main]) * np.eye(3)[main]
    if degrees < LEAST_ZERO_DEG[0] or (_is_other(along, gravity) and np.linalg.norm(other - along) < LEVEL * size):
        return
    vector = " ".join(f"{component:.2f}" for component in other)
    yield (
        compared.cured(T, compared.file_torque(other)) * [[1.0], [DIRECTED]],
        Suspicion(
            "gravity",
            (),
            float(np.deg2rad(degrees)),
            f"the torque fits the file's masses where gravity is about {vector} m/s^2 along the base's axes, "
            f"{degrees:.0f} degrees from where it is stated: does the arm stand on a slope? measure it, and state "
            "--gravity, or --mount",
        ),
    )


def _is_other(one: Array, gravity: Array) -> bool:
    """Whether a gravity is another than the stated one."""
    return bool(np.abs(one - gravity).max() >= 0.1 * np.linalg.norm(gravity))


def _turned_over(compared: Comparison, T: Array) -> Iterator[tuple[Array, Suspicion]]:
    """Gravity along another axis; and all torques reversed, which gravity upside down looks like but for friction."""
    gravity = compared.robot.gravity
    size = float(np.linalg.norm(gravity))
    for axis, sign in product(range(3), (1.0, -1.0)) if size > 0 else ():
        other = sign * size * np.eye(3)[axis]
        if not _is_other(other, gravity):
            continue
        along = f"{'-' if sign < 0 else '+'}{'xyz'[axis]}"
        vector = " ".join(f"{component + 0.0:.4g}" for component in other)
        yield (
            compared.cured(T, compared.file_torque(other)),
            Suspicion(
                "gravity",
                (),
                0.0,
                f"the torque fits the file's masses where gravity points along {along} of the base: is the arm mounted "
                f"so? state --gravity {vector}, or --mount",
            ),
        )
    if len(compared.strong(T)) > 1 and _friction_drives(compared, T):
        yield (
            compared.cured(T, T, -compared.tau) * [[1.0], [0.99]],  # where both explain it, friction has decided
            Suspicion(
                "torque sign", (), -1.0, "all torques are the opposite of what the file's masses need: turn them around"
            ),
        )


def _friction_drives(compared: Comparison, T: Array) -> bool:
    """Whether what T leaves of the torque gives power to most of the strong joints instead of taking it."""
    powers = []
    for joint in compared.strong(T):
        slope, _, _ = compared.against(joint, compared.tau[:, joint], T[:, joint])
        rest = compared.tau[:, joint] - slope * T[:, joint]
        powers.append(float((rest - rest.mean()) @ compared.qd[:, joint]))
    return float(np.median(powers)) < 0


def _zero(compared: Comparison, joint: int, T: Array, least_deg: float) -> tuple[Array, Suspicion | None]:
    """The zero that the torque fits best, first coarsely, then nearer; None: a centre of mass explains as much."""
    name, kind = compared.robot.joint_names[joint], compared.robot.joints[joint].kind
    unit = np.eye(len(compared.robot.joint_names))[joint]
    if kind == "prismatic":
        return np.ones((2, 2)), None

    def cured(degrees: float) -> Array:
        return compared.cured(T, compared.file_torque(moved=np.deg2rad(degrees) * unit))

    def left(degrees: float) -> float:
        return float((tried[degrees][1] / tried[degrees][0]).prod())

    far = 180.0 if sqrt(compared.misfit(T)[0]) > UPSET else NEAR_DEG
    tried = {float(degrees): cured(degrees) for degrees in np.arange(-far, far, 15.0)}
    for step in (7.5, 3.75, 1.875):
        best = min(tried, key=left)
        tried |= {near: cured(near) for near in (best - step, best + step)}
    best = min(tried, key=left)
    # Upside down and half a turn off look alike; the mounting is the likelier.
    least_deg = max(least_deg, float(np.rad2deg(np.arctan2(CENTRE_M, compared.lever(joint)))))
    if abs(best) < least_deg:
        return tried[best] * [[1.0], [MASSES]], None
    return tried[best] * [[1.0], [1.05]], Suspicion(
        "joint zero",
        (name,),
        float(np.deg2rad(best)),
        f"the torque fits the file's masses where joint {name} stands {best:+.0f} degrees from where the log has it: "
        "is its zero that of the robot's file? state position_offset, or check the direction of its axis",
    )
