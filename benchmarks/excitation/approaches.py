"""Plan motions from home to home for robots with meshes, and check the whole files with an independent reference.

    python -m benchmarks.excitation.approaches [--seconds 0] [--names "ur5|panda"] [--robots 30] [--list] [--again]

Robots are those of example-robot-data. Each has three homes: zero within the limits, and two random poses that the
reference finds free. `mindyn excite` designs a motion with the approach and the return; MuJoCo, Pinocchio and coal
measure the written file. Results are stored in build/approaches.json; a later run continues.

Homes in contact by the reference must be rejected, and are not counted among the others. `--list` prints which robots
of the package the study uses, and why not the others.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import numpy as np

import mindyn
from benchmarks.excitation.safe_motions import ROOT, Case, hangs_below_base, wheel_cases, write_missing_limits
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import MindynError
from mindyn.motions.excitation.held_joints import joints_to_hold

sys.path.insert(0, str(ROOT / "tests"))

from oracles.collision_scene import Scene, SceneError, load_scene
from oracles.motion_reference import Motion, check_motion, read_motion

STORE = ROOT / "build" / "approaches.json"
DRAWS = 200
"""Random poses among which free homes are searched."""
FIRST_DRAWS = 30
"""Random poses that show how far apart two bodies can be."""
FREE_M = 0.02
"""m: smallest distance of bodies at a random home, or half of their largest distance at the first random poses, because
some bodies are never that far apart, such as those of a wrist."""
SECONDS = "6"
ALLOWED_S = 15
"""Processor time that a command may take."""
LONGEST_S = 120
"""Processor time after which a command is stopped and counts as not planned."""
MOST_JOINTS = 12


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
    drawn = [
        {name: float(rng.uniform(max(low, -np.pi), min(high, np.pi))) for name, (low, high) in ends.items()}
        for _ in range(DRAWS)
    ]
    measured = [distances_at(scene, q, floor_m) for q in drawn[:FIRST_DRAWS]]
    farthest = {pair: max(distances[pair] for distances in measured) for pair in measured[0]}
    for number, q in enumerate(drawn):
        distances = measured[number] if number < FIRST_DRAWS else distances_at(scene, q, floor_m)
        if all(far <= 0 or distances[pair] > min(FREE_M, far / 2) for pair, far in farthest.items()):
            homes.append(q)
        if len(homes) == 3:
            break
    return homes


def distances_at(scene: Scene, q: dict[str, float], floor_m: float | None) -> dict[str, float]:
    """Return the distances of all bodies that are not adjacent, and to the floor, at one position."""
    check = check_motion(scene, still(q), floor_m=floor_m)
    always = dict.fromkeys(check.always_touching, 0.0)
    return always | {f"{name} - floor": gap for name, gap in check.floor.items()} | {**check.pairs}


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
        free = check_motion(scene, still(home), floor_m=floor_m).smallest
        record["home_m"], record["home_between"] = round(free[0], 5), free[1]
        if done.returncode:
            lines = (done.stdout + done.stderr).splitlines()
            why = next((line for line in lines if line.startswith("error")), "stopped")[:400]
            is_home = "is not safe" in why or "is not possible" in why
            failed = "in contact" if free[0] <= 0 else "home rejected" if is_home else "not planned"
            return record | {"outcome": failed, "why": why}
        motion = read_motion(out / "motion.csv")
        check = check_motion(scene, motion, floor_m=floor_m)
        ends = max(abs(motion.q[name][k] - value) for name, value in home.items() if name in motion.q for k in (0, -1))
        outcome = "safe" if check.is_safe else "penetrating" if check.smallest[0] <= 0 else "limits"
        record |= {"outcome": outcome, "reference_m": round(check.smallest[0], 5), "between": check.smallest[1]}
        return record | {"source": check.source, "ends": round(float(ends), 9)}


def why_unused(scene: Scene, joints: tuple[str, ...]) -> str:
    """Return why the study does not use a robot; "" if it does."""
    if not 1 < len(joints) <= MOST_JOINTS or not set(joints) <= set(scene.limits):
        return f"{len(joints)} moving joints"
    source = scene.source(scene.joints)
    return "closed loops" if scene.closures else "" if "meshes" in source else f"links by {source}"


def robots(names: str) -> Iterator[tuple[Case, Scene | None, tuple[str, ...], str]]:
    """Yield the robots of the package with scene, moving joints, and why the study does not use them."""
    for case in wheel_cases():
        if not case.name.startswith("example-robot-data") or re.search(names, case.name) is None:
            continue
        try:
            scene, robot = load_scene(case.original), mindyn.load_robot(case.given)
            joints = tuple(name for name in robot.primary_names if name not in joints_to_hold(robot)[0])
        except (SceneError, MindynError, ValueError, RuntimeError, OSError) as error:
            yield case, None, (), str(error).splitlines()[0]
            continue
        yield case, scene, joints, why_unused(scene, joints)


def main() -> None:
    """Run the cases that are not stored, and print the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: never")
    parser.add_argument("--names", default="", help="regular expression")
    parser.add_argument("--robots", type=int, default=30)
    parser.add_argument("--list", action="store_true", help="print the robots, and run nothing")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--file", type=Path, default=STORE)
    given = parser.parse_args()
    records = {} if given.again or not given.file.is_file() else json.loads(given.file.read_text())
    begin, count = monotonic(), 0
    for case, scene, joints, unused in robots(given.names):
        if given.list:
            print(f"{case.name}: {unused or f'used, {len(joints)} joints'}", flush=True)
        if given.list or unused or scene is None:
            continue
        count += 1
        if count > given.robots:
            break
        if all(f"{case.name} home {number}" in records for number in range(3)):
            continue
        if given.seconds and monotonic() - begin > given.seconds:
            break
        floor_m = None if hangs_below_base(scene) else 0.0
        for number, home in enumerate(homes_of(scene, joints, floor_m)):
            key = f"{case.name} home {number}"
            if key in records:
                continue
            records[key] = run_home(case.given, scene, home, floor_m)
            print(key, json.dumps({k: v for k, v in records[key].items() if k != "home"}), flush=True)
            given.file.parent.mkdir(exist_ok=True)
            write_file_atomically(given.file, json.dumps(records, indent=1) + "\n")
    if not given.list:
        summarise(records)


def summarise(records: dict[str, dict[str, Any]]) -> None:
    """Print the counts: all outcomes, and the rates among the homes that are free."""
    print(f"{len(records)} homes of {len({key.rpartition(' home ')[0] for key in records})} robots:")
    for outcome, number in Counter(str(record["outcome"]) for record in records.values()).most_common():
        print(f"  {outcome}: {number}")
    free = [record for record in records.values() if record["outcome"] != "in contact"]
    if free:
        times = [float(record["cpu_s"]) for record in free]
        planned = sum(record["outcome"] == "safe" for record in free)
        print(f"free homes: {planned} of {len(free)} planned and safe")
        print(f"processor time: median {np.median(times):.1f} s, at most {max(times):.1f} s, ", end="")
        print(f"{sum(t <= ALLOWED_S for t in times)} of {len(free)} within {ALLOWED_S} s")


if __name__ == "__main__":
    main()
