"""Plan motions from home to home for robots with meshes, and check the whole files with an independent reference.

    python -m benchmarks.excitation.approaches [--seconds 0] [--names "ur5|panda"] [--robots 30] [--again]

Robots are those of example-robot-data. Each has three homes: zero within the limits, and two random poses that the
reference finds free. `mindyn excite` designs a motion with the approach and the return; MuJoCo, Pinocchio and coal
measure the written file. Results are stored in build/approaches.json; a later run continues.

A home that mindyn rejects, because it is nearer to something than the clearance, is counted as such: it is not a path
that was not found.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import numpy as np

import mindyn
from benchmarks.excitation.safe_motions import ROOT, hangs_below_base, wheel_cases, write_missing_limits
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import MindynError
from mindyn.motions.excitation.held_joints import joints_to_hold

sys.path.insert(0, str(ROOT / "tests"))

from oracles.collision_scene import Scene, SceneError, load_scene
from oracles.motion_reference import Motion, check_motion, read_motion

STORE = ROOT / "build" / "approaches.json"
DRAWS = 200
"""Random poses among which free homes are searched."""
FREE_M = 0.02
"""m: smallest distance of a random home. `mindyn excite` asks for up to 60 mm, but less between links that are never
that far apart, such as those of a wrist, so some of these homes are rejected."""
SECONDS = "6"
LONGEST_S = 120
"""Processor time after which a command is stopped and counts as not planned."""


def still(q: dict[str, float]) -> Motion:
    """Return a motion that rests at q."""
    rest = {name: np.zeros(2) for name in q}
    return Motion(np.array([0.0, 0.01]), {name: np.full(2, value) for name, value in q.items()}, rest, rest)


def homes_of(scene: Scene, joints: tuple[str, ...], floor_m: float | None) -> list[dict[str, float]]:
    """Return zero within the limits, and two random poses that the reference finds free."""
    ends = {}
    for name in joints:
        low, high = scene.limits[name]["lower"], scene.limits[name]["upper"]
        ends[name] = (low, high) if np.isfinite([low, high]).all() and low < high else (-3.1, 3.1)
    homes = [{name: float(np.clip(0.0, *ends[name])) for name in joints}]
    rng = np.random.default_rng(0)
    for _ in range(DRAWS):
        q = {name: float(rng.uniform(max(low, -np.pi), min(high, np.pi))) for name, (low, high) in ends.items()}
        if check_motion(scene, still(q), floor_m=floor_m).smallest[0] > FREE_M:
            homes.append(q)
        if len(homes) == 3:
            break
    return homes


def limit_processor_time() -> None:
    """Let the kernel stop this process at the limit."""
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S, LONGEST_S))


def run_home(path: Path, scene: Scene, home: dict[str, float], floor_m: float | None) -> dict[str, object]:
    """Return what happened to one home, and what the reference measures."""
    with TemporaryDirectory() as work:
        out, limits = Path(work) / "motion", Path(work) / "limits.toml"
        write_missing_limits(scene, "", limits)
        limits.write_text(f"home = {list(home.values())}\n" + limits.read_text())
        options = ["--seconds", SECONDS, "--limits", str(limits), "--out", str(out)]
        options += ["--no-floor"] if floor_m is None else []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "mindyn", "excite", str(path), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit_processor_time)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        record: dict[str, object] = {"cpu_s": round(took, 1), "home": home, "code": done.returncode}
        if done.returncode:
            lines = (done.stdout + done.stderr).splitlines()
            why = next((line for line in lines if line.startswith("error")), "")[:240]
            is_home = "is not safe" in why or "is not possible" in why
            free = check_motion(scene, still(home), floor_m=floor_m).smallest
            return record | {"outcome": "home rejected" if is_home else "not planned", "why": why, "home_m": free[0]}
        motion = read_motion(out / "motion.csv")
        check = check_motion(scene, motion, floor_m=floor_m)
        ends = max(abs(motion.q[name][k] - value) for name, value in home.items() if name in motion.q for k in (0, -1))
        outcome = "safe" if check.is_safe else "penetrating" if check.smallest[0] <= 0 else "limits"
        record |= {"outcome": outcome, "reference_m": round(check.smallest[0], 5), "between": check.smallest[1]}
        return record | {"source": check.source, "ends": round(float(ends), 9)}


def main() -> None:
    """Run the cases that are not stored, and print the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: never")
    parser.add_argument("--names", default="", help="regular expression")
    parser.add_argument("--robots", type=int, default=30)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    records = {} if given.again or not STORE.is_file() else json.loads(STORE.read_text())
    begin, robots = monotonic(), 0
    for case in wheel_cases():
        if not case.name.startswith("example-robot-data") or re.search(given.names, case.name) is None:
            continue
        try:
            scene, robot = load_scene(case.original), mindyn.load_robot(case.given)
            joints = tuple(name for name in robot.primary_names if name not in joints_to_hold(robot)[0])
        except (SceneError, MindynError, ValueError, RuntimeError, OSError):
            continue
        is_arm = 1 < len(joints) <= 12 and set(joints) <= set(scene.limits)
        if not is_arm or scene.closures or "meshes" not in scene.source(scene.joints):
            continue
        robots += 1
        if robots > given.robots:
            break
        floor_m = None if hangs_below_base(scene) else 0.0
        for number, home in enumerate(homes_of(scene, joints, floor_m)):
            key = f"{case.name} home {number}"
            if key in records:
                continue
            if given.seconds and monotonic() - begin > given.seconds:
                break
            records[key] = run_home(case.given, scene, home, floor_m)
            print(key, json.dumps({k: v for k, v in records[key].items() if k != "home"}), flush=True)
            STORE.parent.mkdir(exist_ok=True)
            write_file_atomically(STORE, json.dumps(records, indent=1) + "\n")
    times = [float(record["cpu_s"]) for record in records.values()]
    print(f"processor time: median {np.median(times):.1f} s, at most {max(times):.1f} s")
    counts = Counter(str(record["outcome"]) for record in records.values())
    slow = [record["cpu_s"] for record in records.values() if record["cpu_s"] > 15]
    print(f"{len(records)} homes of {len({key.rpartition(' home ')[0] for key in records})} robots: {dict(counts)}")
    print(f"{len(slow)} took more than 15 s of processor time")


if __name__ == "__main__":
    main()
