"""Designed motions of published robots against floor, box and limits, by Pinocchio and coal at 1 kHz.

    MINDYN_ROBOT_FILES=... python benchmarks/safe_motions.py [--count 20] [--seconds 8] [--deadline 6]

Takes the arms (four to eight moving joints, a tree) among the URDFs of the folder in the order of their paths, one of
each file name, designs a motion with the defaults and a crate in the way, and judges it by its written coefficients
without the code that designed it. Ends with 1 where any limit is broken.
"""

# ruff: noqa: E402
import argparse
import os
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "excitation")]

import numpy as np
from independent_check import least_room, worst_parts

import mindyn
from mindyn.excitation.capsules import capsules_of
from mindyn.excitation.motion_design import MotionDesign

CLEARANCE, TOLERANCE = 0.01, 1e-6
ASSUMED = {"velocity": 2.0, "effort": np.inf}
"""For files that state none or zero; torques are then not checked."""


def arms(folder: Path) -> dict[str, tuple[mindyn.Robot, mindyn.MotionLimits, bool]]:
    """Robots with four to eight joints, their limits, and whether these are all their own."""
    found: dict[str, tuple[mindyn.Robot, mindyn.MotionLimits, bool]] = {}
    for path in sorted(folder.rglob("*.urdf")):
        try:
            robot = mindyn.load_robot(path)
            if path.name in found or not 4 <= robot.joint_count <= 8 or robot.has_dependents:
                continue
            try:
                limits, own = mindyn.MotionLimits.of(robot), robot.has_parameters
                own = own and not limits.still.any() and bool((limits.effort > 0).all())
            except mindyn.MindynError:
                own = False
            limits = limits if own else mindyn.MotionLimits.of(robot, **ASSUMED)
            found[path.name] = robot, limits, own
        except mindyn.MindynError:
            continue
    return found


def judged(robot: mindyn.Robot, limits: mindyn.MotionLimits, seconds: float, deadline_s: float) -> tuple[str, bool]:
    """A line on the motion of a robot, and whether it is safe."""
    body = capsules_of(robot)
    size = sum(float(np.linalg.norm(joint.origin.translation)) for joint in robot.joints) or 1.0
    crate = mindyn.Box((0.3 * size, 0.1 * size, 0.0), (0.6 * size, 0.4 * size, 0.3 * size))
    design = mindyn.design_motion(
        robot, limits=limits, seconds=seconds, noise=1.0, starts=1, obstacles=(crate,), deadline_s=deadline_s
    )
    record = design.to_dict()
    checked_torque = np.isfinite(limits.effort).any()
    parts = worst_parts(design.robot, design.limits, record) if checked_torque else kinematic_parts(design)
    floor = 0.0 if any("lower z wall" in label for label in design.used) else None
    room = least_room(robot, body.capsules, record, floor=floor, boxes=(crate,))
    safe = max(parts.values()) <= 1 + TOLERANCE and min(room.values()) >= CLEARANCE - TOLERANCE
    shown = ", ".join(f"{name} {1000 * value:.0f} mm" for name, value in room.items())
    return f"{max(parts.values()):8.1%} of the nearest limit; least distances: {shown}", safe


def kinematic_parts(design: MotionDesign) -> dict[str, float]:
    """Parts of the limits of motion alone, of a robot without inertial parameters."""
    q, qd, qdd, _ = design.sample(1000.0)
    limits = design.limits
    outside = np.maximum(limits.lower - q, q - limits.upper).max()
    return {
        "position": 1 + float(outside),
        "velocity": float((np.abs(qd) / limits.velocity).max()),
        "acceleration": float((np.abs(qdd) / limits.acceleration).max()),
    }


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--count", type=int, default=20)
    given.add_argument("--seconds", type=float, default=8.0)
    given.add_argument("--deadline", type=float, default=6.0)
    asked = given.parse_args()
    folder = Path(os.environ.get("MINDYN_ROBOT_FILES", ""))
    done, broken = 0, 0
    for name, (robot, limits, own) in arms(folder).items():
        if done == asked.count:
            break
        try:
            line, safe = judged(robot, limits, asked.seconds, asked.deadline)
        except mindyn.MindynError as refused:
            print(f"{name:40} refused: {str(refused)[:140]}", flush=True)
            continue
        done, broken = done + 1, broken + (not safe)
        print(f"{name:40} {'' if own else '(limits assumed) '}{line}{'' if safe else '  BROKEN'}", flush=True)
    print(f"{done} motions, {broken} break a limit, the floor or the box")
    return 1 if broken or done < asked.count else 0


if __name__ == "__main__":
    sys.exit(main())
