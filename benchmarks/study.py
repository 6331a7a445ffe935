"""Run one long study by name: make study NAME=spoiled [SECONDS=600] [OPTIONS=...].

A study that accepts SECONDS stops after that time (0: when all cases are done) and records each case under build/; the
next run continues there. OPTIONS are passed to each of its commands.

`python benchmarks/study.py --short [NAME ...]` runs one case of each study (or of those named) without a record, as
`make full` does: studies replace functions of the package by name, and a study whose names are old must not be noticed
months later.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAPPED_TESTS = tuple(sorted({path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}))
UR5 = "ros-industrial/xacro_generated/universal_robots/ur_description/urdf/ur5.urdf"
RECORDED = (
    *(
        "start_up",
        "kernels.speed",
        "kernels.joints",
        "kernels.frameworks",
        "kernels.rollouts",
        "identification.certificate",
    ),
    *("identification.consistent_fit", "identification.mujoco_sysid"),
    *("identification.regression", "identification.report", "identification.streaming", "excitation.designs"),
)
"""Benchmarks of docs/benchmarks.md that need neither a GPU nor measured logs."""
RECORDED_OF_LOGS = (
    "identification.automatic_choice",
    "identification.residual_dynamics",
    "identification.go2_legs",
    "identification.servo_methods",
)


@dataclass(frozen=True, slots=True)
class Study:
    """What a study measures, and how.

    purpose   one line for the list
    commands  arguments of Python, one string for each process
    short     commands of one case each; {folder} is an empty folder. None: no case is short enough
    limit_s   default of --seconds; None: no time limit
    settings  further environment variables
    """

    purpose: str
    commands: tuple[str, ...]
    short: tuple[str, ...] | None
    limit_s: int | None = None
    settings: dict[str, str] = field(default_factory=dict)


def whole_chain_robots() -> str:
    """Return the robots of the whole chain: the Panda, and the UR5 if its file is there."""
    path = Path(os.environ.get("MINDYN_ROBOT_FILES", "/nonexistent")) / UR5
    return shlex.join(["panda", *([str(path)] if path.exists() else [])])


def recorded_benchmarks() -> tuple[str, ...]:
    """Return the modules that measure docs/benchmarks.md on this machine."""
    return RECORDED + (RECORDED_OF_LOGS if "MINDYN_REAL_DATA" in os.environ else ())


STUDIES = {
    "approaches": Study(
        "motions from home to home of robots with meshes, measured by the meshes",
        ("-m benchmarks.excitation.approaches",),
        ("-m benchmarks.excitation.approaches --robots 1 --file {folder}/approaches.json",),
        0,
    ),
    "attacks": Study(
        "hostile files, each with limits of time and memory",
        ("tests/attacks/replay.py",),
        ("tests/attacks/replay.py mesh",),
    ),
    "benchmarks": Study(
        "all of docs/benchmarks.md, measured again (half an hour)",
        tuple(f"-m benchmarks.{name} --record" for name in recorded_benchmarks()),
        None,
    ),
    "chain": Study(
        "every command from robot file to exported code",
        (f"-m benchmarks.identification.whole_chain {whole_chain_robots()}",),
        ("-m benchmarks.identification.whole_chain panda --quick",),
    ),
    "choices": Study(
        "rules that select estimator, friction shapes and offsets, by the error on another motion",
        ("tests/plants/choices.py",),
        ("tests/plants/choices.py --logs 1 --families rich --file {folder}/choices.json",),
        0,
    ),
    "coverage": Study(
        "how often intervals contain the true value, on random arms",
        ("tests/honesty/coverage.py",),
        ("tests/honesty/coverage.py --arms 1 --folder {folder}",),
        0,
    ),
    "cross": Study(
        "kernels for other machines; those for aarch64 run under qemu-user",
        ("tools/cross.py",),
        ("tools/cross.py",) if shutil.which("qemu-aarch64") else None,
    ),
    "elastic-arms": Study(
        "intervals of joint stiffness, on elastic arms that MuJoCo simulates",
        ("tests/plants/elastic_study.py",),
        ("tests/plants/elastic_study.py --logs 1 --kinds elastic --file {folder}/elastic.json",),
        0,
    ),
    "families": Study(
        "how often each rule of automatic identification fails",
        ("tests/honesty/families.py",),
        ("tests/honesty/families.py --logs 1 --seconds 0.1 --file {folder}/families.json",),
        0,
    ),
    "feedback": Study(
        "intervals of instruments under feedback of encoder noise",
        ("tests/honesty/feedback.py",),
        ("tests/honesty/feedback.py --arms 1",),
    ),
    "fleet": Study(
        "200 logs of 20 robots on a Dask cluster, cost of a worker, ten simulated fleets",
        ("-m pytest tests/fleet", "-m benchmarks.fleet.cost", "-m benchmarks.fleet.detection"),
        ("-m benchmarks.fleet.cost --rows 20000", "-m benchmarks.fleet.detection --repetitions 1 --arms 3 --logs 3"),
        settings={"MINDYN_WHOLE_FLEET": "1"},
    ),
    "friction-curves": Study(
        "does the friction curve of one recording lie in the band of another?",
        ("tests/honesty/friction_pairs.py",),
        ("tests/honesty/friction_pairs.py --pairs 1 --folder {folder}",),
        0,
    ),
    "fuzz": Study(
        "20 000 robots near special geometry, compared with Pinocchio",
        ("tests/fuzz/run.py --thorough",),
        ("tests/fuzz/run.py --thorough --cases 1 --record {folder}/fuzz.json",),
        0,
    ),
    "fuzz-files": Study(
        "robots, logs, sidecars, estimates and commands, mutated",
        ("tests/fuzz/files.py", "tests/fuzz/sidecars.py"),
        (
            "tests/fuzz/files.py --seconds 1 --record {folder}/files.json",
            "tests/fuzz/sidecars.py --count 5 --record {folder}/sidecars.json",
        ),
        600,
        {"POLARS_MAX_THREADS": "1"},
    ),
    "fuzz-logs": Study(
        "20 000 logs of every format, mutated",
        ("tests/fuzz/logs.py",),
        ("tests/fuzz/logs.py --cases 5 --record {folder}/logs.json",),
        0,
    ),
    "fuzz-named-files": Study(
        "50 000 meshes, and files that robot files and datasets name, mutated",
        ("tests/fuzz/named_files.py",),
        ("tests/fuzz/named_files.py --count 5",),
        0,
    ),
    "fuzz-readers": Study(
        "20 000 mutated robot files of each format",
        tuple(f"tests/fuzz/readers.py {form}" for form in ("urdf", "toml", "mjcf")),
        tuple(f"tests/fuzz/readers.py {form} --count 5" for form in ("urdf", "toml", "mjcf")),
    ),
    "misfit": Study(
        "how often intervals contain the true value if the model lacks something (MuJoCo)",
        ("tests/plants/misfit.py",),
        ("tests/plants/misfit.py --logs 1 --families friction --file {folder}/misfit.json",),
        0,
    ),
    "mutants": Study(
        "single faults of the code that no test detects (two hours, of which the list of lines takes one)",
        (
            f"tools/mutants.py map {' '.join(f'tests/{name}' for name in MAPPED_TESTS)}",
            "tools/mutants.py run",
            "tools/mutants.py list",
        ),
        ("tools/mutants.py --help",),
    ),
    "payloads": Study(
        "how often intervals of a payload contain the true value",
        ("-m benchmarks.identification.payload_coverage",),
        ("-m benchmarks.identification.payload_coverage --runs 1",),
    ),
    "repeated-runs": Study(
        "do two recordings of one robot agree within their intervals? (MINDYN_REAL_DATA)",
        ("tests/honesty/repeated_runs.py",),
        ("tests/honesty/repeated_runs.py",) if "MINDYN_REAL_DATA" in os.environ else None,
    ),
    "safe-motions": Study(
        "designed motions against the meshes of the original robot files",
        ("-m benchmarks.excitation.safe_motions",),
        ("-m benchmarks.excitation.safe_motions --only random --names ^0: --deadline 1 --file {folder}/motions.json",),
        0,
    ),
    "screens": Study(
        "how often commands and reports show something wrong, or hide it",
        ("tests/honesty/screens.py",),
        ("tests/honesty/screens.py --logs 1 --family 'wrong sign' --file {folder}/screens.json",),
    ),
    "soak": Study(
        "memory and file descriptors during an hour of work",
        ("tests/attacks/soak.py",),
        ("tests/attacks/soak.py --seconds 1",),
        3600,
    ),
    "servo-filters": Study(
        "cut-offs that are selected for position servos, on MuJoCo's leg",
        ("tests/honesty/servo_filters.py",),
        ("tests/honesty/servo_filters.py --logs 1",),
    ),
    "servo-gains": Study(
        "intervals of gains of position servos, on MuJoCo's leg",
        ("tests/honesty/servo_gains.py",),
        ("tests/honesty/servo_gains.py --logs 1",),
    ),
    "plants": Study(
        "false statements on logs of arms that MuJoCo simulates",
        ("tests/plants/study.py",),
        ("tests/plants/study.py --logs 1 --classes sound --file {folder}/plants.json",),
    ),
    "servo-plants": Study(
        "intervals of servo values for arms that MuJoCo simulates, also with friction that is not modelled",
        ("tests/honesty/servo_plants.py",),
        ("tests/honesty/servo_plants.py --arms 1",),
    ),
    "spoiled": Study(
        "false alarms and misses on correct and faulty logs",
        ("tests/honesty/spoiled.py --faults",),
        ("tests/honesty/spoiled.py --logs 1 --automatic 0 --seconds 0.1 --file {folder}/spoiled.json",),
        0,
    ),
    "strangers": Study(
        "identify and a plain pipeline on logs of varying quality",
        ("tests/honesty/strangers.py",),
        ("tests/honesty/strangers.py --logs 1 --file {folder}/strangers.json",),
        0,
    ),
}


def run_study(study: Study, seconds: float | None, options: list[str]) -> int:
    """Run the commands of a study in order until one fails; return its exit code."""
    limit = seconds if seconds is not None else study.limit_s
    timed = [] if study.limit_s is None else ["--seconds", f"{limit:g}"]
    for command in study.commands:
        arguments = [sys.executable, *shlex.split(command), *timed, *options]
        code = subprocess.run(arguments, cwd=ROOT, env=os.environ | study.settings, check=False).returncode
        if code:
            return code
    return 0


RATES = ("feedback", "fleet", "payloads")
"""Studies whose exit code is 1 if a rate is not as required; one case decides nothing about a rate."""


def is_verdict(end: subprocess.CompletedProcess[str]) -> bool:
    """Return whether a study came to its end, and only its result is not as required."""
    return end.returncode == 1 and "Traceback" not in end.stderr and bool(end.stdout)


def run_short(names: list[str]) -> int:
    """Run one case of each named study, by default of all; return the number of studies that fail."""
    failed = []
    for name in names or STUDIES:
        study, begin = STUDIES[name], time.monotonic()
        if study.short is None:
            print(f"{name:16} not run: it has no short form, or a program or its data is missing", flush=True)
            continue
        ends = []
        for command in study.short:
            with tempfile.TemporaryDirectory(prefix="mindyn-study-") as folder:
                words = [part.replace("{folder}", folder) for part in shlex.split(command)]
                environment = os.environ | {n: v for n, v in study.settings.items() if n != "MINDYN_WHOLE_FLEET"}
                ends.append(
                    subprocess.run(
                        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
                    )
                )
        wrong = [end for end in ends if end.returncode and not (name in RATES and is_verdict(end))]
        print(f"{name:16} {'FAILED' if wrong else 'ran'} in {time.monotonic() - begin:.0f} s", flush=True)
        for end in wrong:
            print(end.stdout[-3000:] + end.stderr[-3000:], flush=True)
        failed += [name] if wrong else []
    if failed:
        print(f"{len(failed)} studies do not run: {', '.join(failed)}")
    return len(failed)


def main(arguments: list[str]) -> int:
    """Run the named study with the remaining arguments; list the names if no study has that name."""
    if arguments[:1] == ["--short"]:
        return run_short(arguments[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--seconds", type=float)
    given, options = parser.parse_known_args(arguments)
    if given.name not in STUDIES:
        print(
            f"no study {given.name!r}; the studies are:" if given.name else "make study NAME=..., one of:",
            file=sys.stderr,
        )
        for known, study in STUDIES.items():
            print(f"  {known:16} {study.purpose}", file=sys.stderr)
        return 2
    study = STUDIES[given.name]
    if given.seconds is not None and study.limit_s is None:
        print(f"the study {given.name!r} has no time limit: omit SECONDS", file=sys.stderr)
        return 2
    return run_study(study, given.seconds, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
