"""Check motions of `mindyn excite` against the original robot files with a reference that shares no code with them.

    python -m benchmarks.excitation.safe_motions [--seconds 0] [--only wheels] [--names ur5] [--starts 1] [--again]
                                                 [--record]

Each case runs the command, and MuJoCo, Pinocchio and coal measure the written CSV file: smallest distance to the floor
and between links that are not adjacent, and the limits. Sets of cases:

    wheels      arms with meshes from the packages dm_control, robosuite and example-robot-data, searched in the
                folder MINDYN_ROBOT_WHEELS (pip install --no-deps --target FOLDER ...) or among installed packages
    primitives  files of MINDYN_ROBOT_FILES whose moving links all have primitive collision shapes
    random      100 random robots whose bodies are hidden from mindyn (tests/robots_with_bodies.py)
    bodied      the same robots with their bodies
    played      UR5, Panda, iiwa14 and the tutorial's arm in MuJoCo with contacts

Results are stored in build/safe_motions.json, which several runs can share. The exit code is 1 if a motion penetrates
although no volume was guessed, or if mindyn reports a larger distance than the reference measures.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import numpy as np

from benchmarks.sections import Section, publish
from benchmarks.timing import this_machine
from mindyn.foundation.atomic_files import write_file_atomically

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from oracles.collision_scene import Scene, SceneError, load_scene  # noqa: E402
from oracles.motion_reference import check_motion, read_motion  # noqa: E402
from oracles.mujoco_player import model_with_floor, play  # noqa: E402
from robots_with_bodies import write_random_robot  # noqa: E402

SPEED, EFFORT = 1.5, 1000.0
"""Limits of joints whose file states none, rad/s or m/s and N m or N."""
RANDOM_ROBOTS = 100
PARTS = {
    "robosuite arms": ("robosuite/models/assets/robots", "*.xml"),
    "dm_control": ("dm_control/third_party", "*.xml"),
    "robosuite": ("robosuite/models/assets", "*.urdf"),
    "example-robot-data": ("cmeel.prefix/share/example-robot-data/robots", "*.urdf"),
    "dm_control suite": ("dm_control/suite", "*.xml"),
}


@dataclass(frozen=True)
class Case:
    """A robot file for mindyn, the original file for the reference, and options of the command."""

    group: str
    name: str
    given: Path
    original: Path
    options: tuple[str, ...] = ()
    seconds: float = 6.0
    driven: str = ""
    """Prefix of the names of driven joints, for robots with loops."""


def wheel_folders() -> list[Path]:
    """Return the folders with the robot packages."""
    places = [Path(os.environ["MINDYN_ROBOT_WHEELS"])] if "MINDYN_ROBOT_WHEELS" in os.environ else []
    for name in ("robosuite", "dm_control", "cmeel"):  # example-robot-data has no module, only files beside cmeel
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            places.append(Path(spec.origin).parents[1])
    return list(dict.fromkeys(places))


def wheel_cases() -> Iterator[Case]:
    """Yield the files of the robot packages, one for each content."""
    seen = set()
    for folder in wheel_folders():
        for part, (inside, pattern) in PARTS.items():
            for path in sorted((folder / inside).rglob(pattern)):
                if path.read_bytes() not in seen and path.name != "package.xml":
                    seen.add(path.read_bytes())
                    yield Case("wheels", f"{part}: {path.relative_to(folder / inside)}", path, path)
    if not seen:
        print("wheels: skipped, no robot packages are installed and MINDYN_ROBOT_WHEELS is not set")


def primitive_cases() -> Iterator[Case]:
    """Yield the published files; those with other shapes than primitives are skipped when they are loaded."""
    folder = Path(os.environ.get("MINDYN_ROBOT_FILES", "/nonexistent"))
    if not folder.is_dir():
        print("primitives: skipped, MINDYN_ROBOT_FILES is not set")
    for path in sorted(folder.rglob("*.urdf")):
        yield Case("primitives", str(path.relative_to(folder)), path, path)


def random_cases(work: Path) -> Iterator[Case]:
    """Yield random robots, first without their bodies, then with them."""
    for group in ("random", "bodied"):
        for seed in range(RANDOM_ROBOTS):
            robot = write_random_robot(seed, work / str(seed))
            name = f"{seed}: {robot.description}"
            given = robot.stripped if group == "random" else robot.original
            driven = "drive" if "five-bar" in name else ""
            yield Case(group, name, given, robot.original, robot.options, driven=driven)


def played_cases(work: Path) -> Iterator[Case]:
    """Yield the robots that are played in MuJoCo with contacts."""
    arm = work / "arm.urdf"
    text = (ROOT / "docs" / "tutorial.md").read_text()
    arm.write_text(re.findall(r'write_text\("""(<robot.*?</robot>\n)"""', text, re.DOTALL)[0])
    yield Case("played", "tutorial arm", arm, arm, seconds=20.0)
    published = Path(os.environ.get("MINDYN_ROBOT_FILES", "/nonexistent"))
    files = {"iiwa14": published / "drake/iiwa_description/urdf/iiwa14_spheres_dense_collision.urdf"}
    for folder in wheel_folders():
        robots = folder / PARTS["example-robot-data"][0]
        files["UR5"] = robots / "ur_description/urdf/ur5_robot.urdf"
        files["Panda"] = robots / "panda_description/urdf/panda.urdf"
    for name, path in files.items():
        if path.is_file():
            yield Case("played", name, path, path, seconds=20.0)


def write_missing_limits(scene: Scene, driven: str, path: Path) -> None:
    """Write the limits that the original file does not have."""
    lines: dict[str, list[str]] = {"lower": [], "upper": [], "velocity": [], "effort": []}
    for name in scene.joints:
        limit = scene.limits[name]
        if name in scene.followers or not name.startswith(driven):
            continue
        if not np.isfinite([limit["lower"], limit["upper"]]).all() or limit["lower"] >= limit["upper"]:
            lines["lower"].append(f'"{name}" = -3.1')
            lines["upper"].append(f'"{name}" = 3.1')
        if not limit.get("velocity", 0.0) > 0:
            lines["velocity"].append(f'"{name}" = {SPEED}')
        if not limit.get("effort", 0.0) > 0:
            lines["effort"].append(f'"{name}" = {EFFORT}')
    path.write_text("".join(f"{key} = {{ {', '.join(values)} }}\n" for key, values in lines.items() if values))


def excite(case: Case, scene: Scene, out: Path, *, starts: int, deadline_s: float) -> tuple[int, str]:
    """Run `mindyn excite` and return its exit code and its output."""
    limits = out.with_suffix(".toml")
    write_missing_limits(scene, case.driven, limits)
    options = ["--seconds", str(case.seconds), "--starts", str(starts), "--out", str(out), "--limits", str(limits)]
    if deadline_s:
        options += ["--deadline-s", str(deadline_s)]
    command = [sys.executable, "-m", "mindyn", "excite", str(case.given), *options, *case.options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    return done.returncode, done.stdout + done.stderr


def reported_distances(out: Path) -> list[dict]:
    """Return the distances in the motion file."""
    return (json.loads((out / "motion.json").read_text()).get("check") or {}).get("distances", [])


def hangs_below_base(scene: Scene) -> bool:
    """Return whether no random position has all moving bodies above the base plane: a leg, a pendulum."""
    rng = np.random.default_rng(1)
    ranges = [np.clip([scene.limits[name][end] for end in ("lower", "upper")], -np.pi, np.pi) for name in scene.joints]
    R, p = scene.place(
        scene.complete({name: rng.uniform(*ends, 500) for name, ends in zip(scene.joints, ranges, strict=True)})
    )
    moving = [shape for shape in scene.shapes if shape.body]
    lowest = [s.lowest(R[:, s.body] @ s.R, p[:, s.body] + R[:, s.body] @ s.p) for s in moving]
    return bool(lowest) and bool((np.min(lowest, axis=0) < 0).all())


def run_case(case: Case, *, starts: int, deadline_s: float) -> dict[str, object]:
    """Return the record of one case: what happened, what mindyn reports, and what the reference measures."""
    try:
        scene = load_scene(case.original)
    except (SceneError, ValueError, RuntimeError, OSError) as error:
        return {"outcome": "skipped", "why": f"no reference: {error}"[:200]}
    if case.group == "primitives" and scene.source(scene.joints) != "primitives":
        return {"outcome": "skipped", "why": "a moving link without a primitive shape"}
    if not 1 < len(scene.joints) <= 12:
        return {"outcome": "skipped", "why": f"{len(scene.joints)} joints"}
    hangs = not scene.closures and hangs_below_base(scene)
    if hangs:
        case = replace(case, options=(*case.options, "--no-floor"))
    with TemporaryDirectory() as work:
        out = Path(work) / "motion"
        start = monotonic()
        code, message = excite(case, scene, out, starts=starts, deadline_s=deadline_s)
        record: dict[str, object] = {"seconds": round(monotonic() - start, 1), "code": code}
        record |= {"starts": starts, "deadline_s": deadline_s}
        if code == 1 and "look like propellers or wheels" in message:
            return record | {"outcome": "skipped", "why": "wheels alone"}
        if code:
            source = "guess" if case.group == "random" else scene.source(scene.joints)
            return record | {"outcome": "withheld" if code == 3 else "error", "source": source, "why": _reason(message)}
        motion = read_motion(out / "motion.csv")
        if case.group == "played":
            played = play(model_with_floor(case.original), motion)
            contacts = {name: round(depth, 5) for name, depth in played.contacts.items()}
            return record | {
                "outcome": "penetrating" if contacts else "safe",
                "contacts": contacts,
                "tracking_error": round(played.tracking_error, 5),
            }
        check = check_motion(scene, motion, floor_m=None if hangs else 0.0)
        distance, between = check.smallest
        if between == "nothing":
            return record | {"outcome": "skipped", "why": "nothing can touch"}
        outcome = "safe" if check.is_safe else "penetrating" if distance <= 0 else "limits"
        return record | {
            "outcome": outcome,
            "source": "guess" if case.group == "random" else check.source,
            "reported_m": min((distance["distance_m"] for distance in reported_distances(out)), default=None),
            "overstated": check.find_overstated(reported_distances(out)),
            "reference_m": round(distance, 5),
            "between": between,
            "limits": {name: round(value, 4) for name, value in check.limits.items()},
            "always_touching": check.always_touching,
        }


def _reason(message: str) -> str:
    """Return the line of the output with the reason why no motion was written."""
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("note:")]
    return next((line for line in lines if line.startswith("error")), lines[-1] if lines else "")[:240]


SOURCES = {
    "primitives": "collision shapes: primitives",
    "meshes": "collision meshes",
    "visual meshes": "visual meshes",
    "guess": "guessed from inertia and joint frames",
    "": "played in MuJoCo with contacts",
}
"""Source of the volumes, in the order of the table."""
OUTCOMES = ("safe", "penetrating", "limits", "withheld", "error")


def find_failures(records: dict[str, dict]) -> list[str]:
    """Return the failures: contact, or an overstated distance, although no volume was guessed."""
    failures = []
    for key, record in records.items():
        is_known = record.get("source") != "guess"
        overstated = is_known and bool(record.get("overstated"))
        if overstated or (is_known and record["outcome"] in ("penetrating", "limits")):
            failures.append(f"{key}: {'overstated, ' if overstated else ''}{json.dumps(record)}")
    return failures


def section_of(records: dict[str, dict]) -> Section:
    """Return the section of docs/benchmarks.md: counts for each source of volume."""
    run = {key: record for key, record in records.items() if record["outcome"] != "skipped"}
    rows: list[Sequence[str]] = [("volumes", *OUTCOMES)]
    for source, words in SOURCES.items():
        counts = Counter(record["outcome"] for record in run.values() if record.get("source", "") == source)
        if counts:
            rows.append((words, *(str(counts[outcome]) for outcome in OUTCOMES)))
    groups = Counter(key.partition("/")[0] for key in run)
    whole = dict.fromkeys(("random", "bodied"), f" of {RANDOM_ROBOTS}")
    cases = ", ".join(f"{count}{whole.get(group, '')} {group}" for group, count in sorted(groups.items()))
    deadlines = sorted({record["deadline_s"] for record in run.values()})
    searches = f"{min(deadlines):g} s" if len(deadlines) == 1 else f"{min(deadlines):g} to {max(deadlines):g} s"
    known = [item for item in run.values() if item.get("source") not in (None, "guess") and "reported_m" in item]
    by_design = [
        f"{key.partition('/')[2]}: {', '.join(item['always_touching'])}"
        for key, item in run.items()
        if item.get("source") != "guess" and item.get("always_touching")
    ]
    withheld = [f"{key.partition('/')[2]}: {item['why']}" for key, item in run.items() if item["outcome"] == "withheld"]
    return Section(
        "safe_motions",
        "Safety of designed motions",
        "python -m benchmarks.excitation.safe_motions --record",
        this_machine("mujoco", "pin", "coal"),
        [
            "Motions of `mindyn excite` against the original robot files. MuJoCo, Pinocchio and coal measure the "
            "written CSV file; the check shares no code with the design. Penetrating: two links that are not "
            "adjacent, or a link and the floor, touch. Limits: a limit of the file is exceeded. Withheld: exit code "
            "3 and no file.",
            f"Cases: {cases}. Motions of 6 s (played: 20 s) with `--starts 1` and searches of at most {searches}.",
        ],
        rows,
        [
            f"Where no volume is guessed, mindyn reports a larger distance than the reference measures in "
            f"{sum(bool(item['overstated']) for item in known)} of {len(known)} motions.",
            "Links that touch at all random positions, or keep one distance at all of them, touch by design and do not "
            f"count: {'; '.join(by_design) or 'none'}.",
            *(f"Withheld: {item}" for item in withheld),
        ],
    )


def read_records(path: Path) -> dict[str, dict]:
    """Return the records of this and other runs; empty if there is no file."""
    return json.loads(path.read_text()) if path.is_file() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after this time; 0: when all cases are done")
    parser.add_argument("--only", default="", help="wheels, primitives, random, bodied or played")
    parser.add_argument("--names", default="", help="cases whose name matches this regular expression")
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=60.0, help="seconds of each search; 0: none")
    parser.add_argument("--again", action="store_true", help="repeat cases that are recorded")
    parser.add_argument("--record", action="store_true", help="write the counts to docs/benchmarks.md")
    parser.add_argument("--file", type=Path, default=ROOT / "build" / "safe_motions.json")
    given = parser.parse_args()
    given.file.parent.mkdir(parents=True, exist_ok=True)
    start = monotonic()
    with TemporaryDirectory() as work:
        cases = [*played_cases(Path(work)), *wheel_cases(), *primitive_cases(), *random_cases(Path(work))]
        for case in cases:
            key = f"{case.group}/{case.name}"
            if (
                (key in read_records(given.file) and not given.again)
                or given.only not in ("", case.group)
                or not re.search(given.names, case.name)
            ):
                continue
            if given.seconds and monotonic() - start > given.seconds:
                print("stopped after --seconds; the next run continues")
                break
            record = run_case(case, starts=given.starts, deadline_s=given.deadline)
            records = read_records(given.file) | {key: record}
            write_file_atomically(given.file, json.dumps(records, indent=1))  # another run may read it
            shown = {
                name: record[name]
                for name in ("reference_m", "reported_m", "between", "overstated", "why", "contacts")
                if record.get(name)
            }
            print(f"{key}: {record['outcome']} {shown}", flush=True)
    records = read_records(given.file)
    publish(section_of(records), record=given.record)
    failures = find_failures(records)
    print(*failures, f"{len(failures)} failures among {len(records)} cases", sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
