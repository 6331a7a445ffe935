"""Sheu & Walker 1991: tables 2, 3, 5, 7, 8, 10, 12, 13."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from math import ceil, log10
from typing import Any

import numpy as np

from mindyn.equations.batch_evaluation import evaluate_batch
from mindyn.equations.catalogue import build_equation
from mindyn.equations.identifiability.decoupling import decoupling_rows
from mindyn.equations.identifiability.numeric import default_priority, numeric_base
from mindyn.equations.identifiability.parameter_space import essential_space
from mindyn.equations.identifiability.reduction import Reduction, reduce_model
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.rotations import rot_x
from mindyn.foundation.algebra.values import Array
from mindyn.papers.reproduction import PaperTable, Reproduction, Row
from mindyn.robots.loading import load_robot
from mindyn.robots.robot import Robot

CITATION = "S.-Y. Sheu, M. W. Walker, Identifying the independent inertial parameter space of robot manipulators, 1991"
PAPER_NAMES = ("m", "mcx", "mcy", "mcz", "Ix", "Ixy", "Iy", "Ixz", "Iyz", "Iz")
"""The paper's names in our order of link parameters; its products of inertia have the opposite sign."""
SIGNS = np.array([-1.0 if name in ("Ixy", "Ixz", "Iyz") else 1.0 for name in PAPER_NAMES])
PRINTED_TOLERANCE = 1.1e-3
"""Effect of rounding table 6 to three digits on tables 7 and 8."""
DRAWS, SAMPLES, FACTOR = 8, 101, 1.35
"""Random draws over which singular values are averaged; states of a draw; the factor within which they must agree."""
ROUNDED_RIGHT_ANGLE = 1.5708
MOTION_RATE_RAD_S = 4.0
"""Rate of the sinusoidal motion, which the paper does not describe; every joint moves through its whole range."""
UNPUBLISHED = "lengths and masses of the arm are not published: those of an example are used"


@dataclass(frozen=True, slots=True)
class ReducedArm:
    """An arm, a motion q, qd, qdd of its primary joints, and its reduction ranked on random states."""

    robot: Robot
    motion: tuple[Array, Array, Array]
    reduction: Reduction


def reduce_arms() -> tuple[ReducedArm, ReducedArm]:
    """Reduce the PUMA 560 and the five-bar arm."""
    data = _read_data()
    puma, arm = load_robot("puma560_fgl"), load_robot("five_bar")
    motion = sinusoid(np.array(data["ranges"]["q_min"]), np.array(data["ranges"]["q_max"]))
    loop = five_bar_motion(data)
    return (
        ReducedArm(puma, motion, reduce_model(puma, *motion, states=puma_states(data, 0))),
        ReducedArm(arm, loop, reduce_model(arm, *loop, states=five_bar_states(data, 0))),
    )


def _read_data() -> dict[str, Any]:
    text = (resources.files("mindyn.papers") / "data" / "sheu_walker.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def reproduce() -> Reproduction:
    """Reproduce every table that contains numbers."""
    data, tilted = _read_data(), rounded_puma()
    reduced_puma, reduced_five_bar = reduce_arms()
    puma, arm = reduced_puma.robot, reduced_five_bar.robot
    by_states, loop = reduced_puma.reduction, reduced_five_bar.reduction
    return Reproduction(
        "sheu-walker",
        CITATION,
        (
            _singular_values(puma, data),
            _errors(
                "Table 3: PUMA 560, torque errors of reduced models",
                data["table3"],
                by_states,
                34,
                published=True,
            ),
            _pattern("Table 5: independent parameters of the PUMA 560", data["table5"], tilted),
            *_eigenvector_table(tilted, data),
            _errors(
                "Table 10: five-bar arm, torque errors of reduced models",
                data["table10"],
                loop,
                20,
                published=False,
            ),
            _pattern("Table 12: independent parameters of the five-bar arm", data["table12"], arm),
            _comparison(puma, data),
        ),
    )


def rounded_puma() -> Robot:
    """Return the PUMA with its twists of +-90 degrees written as +-1.5708 rad, as in the paper's table 5."""
    robot = load_robot("puma560_fgl")
    joints = []
    for joint in robot.joints:
        sine = float(joint.tip.rotation[2, 1])
        a = np.sign(sine) * ROUNDED_RIGHT_ANGLE
        R = rot_x(np.cos(a), np.sin(a)) if abs(sine) > 0.5 else np.eye(3)
        joints.append(replace(joint, tip=Pose(R, joint.tip.translation)))
    return replace(robot, joints=tuple(joints))


def puma_states(data: dict[str, Any], seed: int) -> tuple[Array, Array]:
    """Draw positions uniformly in table 1's ranges, and velocities v_max sin(uniform phase), which fits table 2."""
    rng, ranges = np.random.default_rng(seed), data["ranges"]
    q = rng.uniform(ranges["q_min"], ranges["q_max"], (SAMPLES, 6))
    return q, np.array(ranges["qd_max"]) * np.sin(rng.uniform(0, 2 * np.pi, (SAMPLES, 6)))


def five_bar_states(data: dict[str, Any], seed: int) -> tuple[Array, Array]:
    """Draw joints 1 and 2 uniformly in table 9's ranges, with p2 - p3 in the range that keeps the loop open."""
    rng, ranges = np.random.default_rng(seed), data["table9"]
    p = rng.uniform(ranges["q_min"], ranges["q_max"], (SAMPLES, 2))
    p3 = p[:, 1:] - rng.uniform(ranges["apart"][0], ranges["apart"][1], (SAMPLES, 1))
    return np.hstack([p, p3]), np.array(ranges["qd_max"]) * np.sin(rng.uniform(0, 2 * np.pi, (SAMPLES, 3)))


def sinusoid(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Return one period in which every joint moves through its range."""
    angle = np.linspace(0, 2 * np.pi, 2 * SAMPLES)[:, None]
    half = (high - low) / 2
    q = (low + high) / 2 + half * np.sin(angle)
    rate = MOTION_RATE_RAD_S
    return q, half * rate * np.cos(angle), -half * rate**2 * np.sin(angle)


def five_bar_motion(data: dict[str, Any]) -> tuple[Array, Array, Array]:
    """Move joints 1 and 2 through their ranges, with joint 3 behind joint 2 by an angle within the range."""
    ranges = data["table9"]
    p, pd, pdd = sinusoid(np.array(ranges["q_min"]), np.array(ranges["q_max"]))
    a, ad, add = sinusoid(np.array([ranges["apart"][0]]), np.array([ranges["apart"][1]]))
    return np.hstack([p, p[:, 1:] - a]), np.hstack([pd, pd[:, 1:] - ad]), np.hstack([pdd, pdd[:, 1:] - add])


def _singular_values(robot: Robot, data: dict[str, Any]) -> PaperTable:
    function = build_equation(robot, "energy_regressor")
    draws = []
    for seed in range(DRAWS):
        E = evaluate_batch(function, *puma_states(data, seed))
        H = np.diff(2 * E[:, 0] + E[:, 1], axis=0)
        draws.append(np.linalg.svd(H, compute_uv=False))
    values = np.array(draws)
    mean = np.exp(np.log(values[:, :36]).mean(axis=0))
    rows = []
    for k, (printed, ours) in enumerate(zip(data["table2"][:36], mean, strict=True)):
        ratio = ours / printed
        is_near = 1 / FACTOR <= ratio <= FACTOR
        rows.append(Row.decide(f"sigma {k + 1}", f"{printed:.1e}", f"{ours:.1e}", f"x {ratio:.2f}", is_near))
    zero = float(values[:, 36:].max())
    decade = 10.0 ** ceil(log10(zero))  # the digits are rounding errors, which differ between machines
    rows.append(
        Row.check("sigma 37 .. 60: zero, rank 36", "5.7e-12 .. 0", f"at most {decade:.0e}", zero < 1e-8 * mean[-1])
    )
    note = (
        "The paper does not describe its sampling. Among those tried, velocities v_max sin(uniform phase) with "
        f"twice the kinetic energy fit: geometric means over {DRAWS} draws of {SAMPLES} states are shown."
    )
    return PaperTable("Table 2: singular values of the PUMA 560", f"a factor of {FACTOR:g}", tuple(rows), note)


def _errors(title: str, printed: dict[str, Any], by_states: Reduction, enough: int, *, published: bool) -> PaperTable:
    """Compare the energy and the torque that reduced models miss, ranked on random states as in the paper."""
    why = "amplitude and frequency of the sinusoid, and the distribution of the states, are not published"
    rows: list[Row] = []
    for k, percent in zip(printed["components"], printed["energy_percent"], strict=True):
        ours = 100 * by_states.energy_error[k]
        rows.append(Row.leave_open(f"{k} components, energy missed", f"{percent:g} %", why, f"{ours:.2g} %"))
    for joint, values in enumerate(printed["mean_square"]):
        pairs = zip(printed["components"], values, strict=True)
        shown = ", ".join(f"{value:.1e}" for _, value in pairs)
        ours_text = ", ".join(f"{by_states.torque_error[k, joint] ** 2:.1e}" for k in printed["components"])
        rows.append(Row.leave_open(f"joint {joint + 1}, mean square torque error", shown, why, ours_text))
    last, size = printed["components"][-1], by_states.torque_size
    worst = float((by_states.torque_error[last] / size).max())
    rows.append(Row.check(f"all {last} components: no error", "0", f"{worst:.0e} of the torque", worst < 1e-9))
    share = float((by_states.torque_error[enough] / size).max())
    fewer = float((by_states.torque_error[10] / size).max())
    words = f"{enough} components are good, 10 are not"
    text = f"{100 * share:.2g} % and {100 * fewer:.2g} % of the torque"
    if published:
        rows.append(Row.check(words, "in words", text, share < fewer / 10))
    else:
        rows.append(Row.leave_open(words, "in words", UNPUBLISHED, text))
    for k, percent in printed.get("energy_below", {}).items():
        ours = 100 * by_states.energy_error[int(k)]
        rows.append(Row.leave_open(f"{k} components, energy missed", f"< {percent:g} %", UNPUBLISHED, f"{ours:.2g} %"))
    return PaperTable(
        title, "the claims in words: a tenth of the error with 10 components, and none with all", tuple(rows)
    )


def _labels(pattern: dict[str, Sequence[Any]]) -> set[str]:
    double = {"Ix": "Ixx", "Iy": "Iyy", "Iz": "Izz"}
    return {f"{double.get(name, name)}{i + 1}" for name in pattern for i, mark in enumerate(pattern[name]) if mark}


def _pattern(title: str, pattern: dict[str, Sequence[Any]], robot: Robot) -> PaperTable:
    base = numeric_base(robot, priority=default_priority(robot))
    kept, printed = {base.labels[k] for k in base.survivors or ()}, _labels(pattern)
    rows = []
    for name in ("m", "mcx", "mcy", "mcz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz"):
        theirs, ours = (
            "".join("x" if f"{name}{i + 1}" in labels else "." for i in range(len(robot.joints)))
            for labels in (printed, kept)
        )
        rows.append(Row.check(name, theirs, ours, theirs == ours))
    note = (
        "With twists of exactly 90 deg the printed columns have rank 33: 1.5708 rad is used."
        if len(printed) == 36
        else ""
    )
    return PaperTable(f"{title} ({len(printed)})", "every mark", tuple(rows), note)


def _eigenvector_table(robot: Robot, data: dict[str, Any]) -> list[PaperTable]:
    base = numeric_base(robot, priority=default_priority(robot))
    by_table = {"7": essential_space(robot).vector(robot.phi), "8": base.embedding @ (base.matrix @ robot.phi)}
    tables = []
    for number, title in (("7", "essential parameters"), ("8", "independent parameters")):
        ours = by_table[number].reshape(-1, len(PAPER_NAMES)).T * SIGNS[:, None]
        rows = []
        for name, values in zip(PAPER_NAMES, ours, strict=True):
            printed = np.array([value or 0.0 for value in data[f"table{number}"][name]])
            gap = float(np.abs(values - printed).max())
            theirs, ours_text = (
                ", ".join(f"{value:.3f}" for value in np.round(row, 3) + 0.0) for row in (printed, values)
            )
            rows.append(Row.decide(name, theirs, ours_text, f"{gap:.1e}", gap < PRINTED_TOLERANCE))
        tables.append(
            PaperTable(
                f"Table {number}: {title} of the PUMA 560, links 1 .. 6",
                f"{PRINTED_TOLERANCE:g}, from table 6",
                tuple(rows),
            )
        )
    return tables


def _comparison(puma: Robot, data: dict[str, Any]) -> PaperTable:
    three, arm = puma.lock({"joint4": 0.3, "joint5": -0.4, "joint6": 0.1}), load_robot("five_bar")
    serial, loop = numeric_base(three).count, numeric_base(arm).count
    counts = {
        "links": ((3, 5), [len(robot.links) for robot in (three, arm)]),
        "joints": ((3, 6), [len(robot.joints) + len(robot.loops) for robot in (three, arm)]),
        "primary joints": ((3, 3), [robot.joint_count for robot in (three, arm)]),
        "inertial parameters in all": ((30, 50), [len(robot.phi) for robot in (three, arm)]),
    }
    why = "15 = 7 x 3 - 4 - 2 by every method"
    C = decoupling_rows(arm, five_bar_states(data, 0)[0])
    three_less, decoupled = (numeric_base(arm, constraints=C_used).count for C_used in (C[:3], C))
    any_three = "any three independent constraints with an effect on the dynamics remove three parameters"
    all_q = "the paper counts one constraint for each of the three entries; each of them alone removes four"
    rows = (
        *(
            Row.check(f"number of {name}", f"{theirs[0]}, {theirs[1]}", f"{ours[0]}, {ours[1]}", list(theirs) == ours)
            for name, (theirs, ours) in counts.items()
        ),
        Row.quote("number of actuators", "3, 3", "one at each primary joint; of the arms' design"),
        Row.correct("dimension of the essential space, PUMA 560", "16; the conclusion says eight", str(serial), why),
        Row.check("dimension of the essential space, semi-direct-drive arm", "26", str(loop), loop == 26),
        Row.compare("with three constraints by mass redistribution", 23, three_less, 0, any_three, form=".0f"),
        Row.report(
            "with all off-diagonal inertias zero in every configuration", f"{decoupled}, by {len(C)} constraints", all_q
        ),
    )
    note = "Tables 1, 4, 6, 9 and 11 are inputs: ranges of the states, the order of removal, true values."
    return PaperTable(
        "Table 13: the PUMA's first three links compared with the semi-direct-drive arm", "exact", rows, note
    )
