"""Record values and intervals of 14 identifications before a change of structure, and compare them after it.

    MINDYN_REAL_DATA=FOLDER python tools/frozen_cases.py record FILE.npz
    MINDYN_REAL_DATA=FOLDER python tools/frozen_cases.py compare FILE.npz

Cases: the training logs of every set of the leaderboard, a leg with unknown gains, a wrist sensor, phases of a floating
base, a closed loop, a stream, and a fleet of six. `compare` prints, for each case, the largest change of a value
relative to the length of all values, and relative to the half-width of its interval.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

# ruff: noqa: E402
from fleet.fleets import ARM, SETTINGS, SIDECAR, log_bytes
from identification.test_phases import CASES as PHASES
from identification.test_phases import SETTINGS as PHASE_SETTINGS
from identification.test_phases import URDF, simulate, write
from scipy.spatial.transform import Rotation

import mindyn
from benchmarks.identification.go2_legs import UNKNOWN, leg_logs, leg_robot
from leaderboard.sets import prepare
from mindyn.applications import identify_payload_from_wrench, study_fleet
from mindyn.applications.comparison.log_comparison import group_splits
from mindyn.applications.comparison.log_sets import read_sets
from mindyn.logs import WrenchLog

Case = tuple[np.ndarray, np.ndarray]
"""Values, and half-widths of their intervals."""


def values_of(estimate: mindyn.Estimate) -> Case:
    """Return the values of an estimate and their half-widths."""
    return estimate.beta, estimate.uncertainty.half_widths


def list_recorded() -> Iterator[tuple[str, Callable[[], Case]]]:
    """List the training logs of the leaderboard, each group of splits once."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(Path(folder), local=Path(os.environ["MINDYN_REAL_DATA"]))
        for group in group_splits(read_sets(prepared)):
            robot, logs = group[0].robot, group[0].training
            yield group[0].name, lambda robot=robot, logs=logs: values_of(mindyn.identify(robot, list(logs)))


def identify_leg() -> Case:
    """Identify a leg of the Go2 from targets and positions, with unknown gains of the servos."""
    log = leg_logs("FL", UNKNOWN)[0]
    estimate = mindyn.identify(leg_robot("FL"), log, settings=mindyn.EquationSettings.automatic())
    return values_of(estimate)


def identify_tool() -> Case:
    """Identify a tool on a wrist sensor with a bias and noise."""
    R = Rotation.random(40, random_state=0).as_matrix()
    weight = 1.3 * np.einsum("nji,j->ni", R, [0, 0, -9.81])
    readings = np.hstack([np.cross([0.02, -0.01, 0.09], weight), weight]) + np.array([0.1, -0.2, 0.05, 2.0, -3.0, 5.0])
    readings += np.random.default_rng(0).normal(0, [0.005] * 3 + [0.1] * 3, readings.shape)
    load = identify_payload_from_wrench(WrenchLog(readings, R)).load
    low, high = load.mass_interval
    return np.array([load.mass, *load.centre]), np.full(4, (high - low) / 2)


def identify_phases() -> Case:
    """Identify a biped in flight and on one foot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "biped.urdf"
        path.write_text(URDF)
        robot = mindyn.load_robot(path, root_joint="floating", snap=False)
        files = [write(Path(folder), case, simulate(case, 8.0, 0), PHASES[case]) for case in ("held", "flight", "foot")]
        logs = [mindyn.read_log(file, robot) for file in files]
        return values_of(mindyn.identify(robot, logs, settings=PHASE_SETTINGS))


def simulate_log(name: str, seconds: float, seed: int) -> tuple[mindyn.Robot, mindyn.Log]:
    """Return a robot and a log of sums of sines with noise of the torque."""
    robot, rng = mindyn.load_robot(name), np.random.default_rng(seed)
    n = len(robot.primary_names)
    t = np.arange(0, seconds, 0.01)[:, None, None]
    w, a, phase = rng.uniform(0.5, 5, (4, n)), rng.uniform(0.03, 0.1, (4, n)), rng.uniform(0, 6, (4, n))
    q, qd, qdd = ((a * w**k * np.sin(w * t + phase + k * np.pi / 2)).sum(axis=1) for k in range(3))
    home = np.zeros(n) if name != "five_bar" else np.array([0.0, 0.1, -1.2])
    tau = mindyn.compile_model(robot).inverse_dynamics(q + home, qd, qdd)
    tau = tau + 0.5 * qd + 0.8 * np.tanh(qd / 0.02) + rng.normal(scale=0.02, size=q.shape)
    return robot, mindyn.log_from_arrays(robot.primary_names, t.ravel(), q + home, tau)


def identify_loop() -> Case:
    """Identify a five-bar linkage."""
    return values_of(mindyn.identify(*simulate_log("five_bar", 20.0, 1)))


def identify_stream() -> Case:
    """Identify from a file that is read block by block."""
    robot, log = simulate_log("planar2", 400.0, 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.csv"
        columns = np.column_stack([log.time, log.q, log.tau])
        np.savetxt(path, columns, delimiter=",", header="t,q1,q2,tau1,tau2", comments="", fmt="%.9g")
        path.with_name("long.csv.toml").write_text(SIDECAR)
        return values_of(mindyn.identify(robot, mindyn.scan_log(path, robot)))


def assess_six() -> Case:
    """Assess a fleet of six arms, one of them with more friction."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            (Path(folder) / f"arm{number}").mkdir()
            (Path(folder) / f"arm{number}" / "logs.toml").write_text(SIDECAR)
            for day in range(3):
                content = log_bytes((number, day), friction=1.4 if number == 3 else 1.0)
                (Path(folder) / f"arm{number}" / f"{day}.parquet").write_bytes(content)
        pattern = f"{folder}/{{robot_id}}/*.parquet"
        return values_of(study_fleet(ARM, pattern, Path(folder) / "out", settings=SETTINGS).type.estimate)


CASES: dict[str, Callable[[], Case]] = {
    "wrist sensor": identify_tool,
    "phases of a biped": identify_phases,
    "five-bar": identify_loop,
    "stream": identify_stream,
    "fleet of six": assess_six,
}


def list_cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    """List all cases; a case that needs absent files is left out with a message."""
    if "MINDYN_REAL_DATA" in os.environ:
        yield from list_recorded()
        yield "go2 leg, unknown gains", identify_leg
    else:
        print("MINDYN_REAL_DATA is not set: no recorded logs")
    yield from CASES.items()


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="part of the names of cases")
    chosen = parser.parse_args()
    stored = np.load(chosen.file) if chosen.action == "compare" else {}
    kept: dict[str, np.ndarray] = {}
    for name, run in list_cases():
        if chosen.only not in name:
            continue
        beta, widths = run()
        kept |= {f"{name}|values": beta, f"{name}|widths": widths}
        if not stored:
            print(f"{name}: {len(beta)} values", flush=True)
            continue
        before, wide = stored[f"{name}|values"], stored[f"{name}|widths"]
        if before.shape != beta.shape:
            print(f"{name}: {len(before)} -> {len(beta)} values", flush=True)
            continue
        relative = np.abs(beta - before).max() / np.abs(before).max()
        known = np.isfinite(wide) & (wide > 0)
        shifted = (np.abs(beta - before)[known] / wide[known]).max(initial=0)
        both = known & np.isfinite(widths)
        widths_change = (np.abs(widths - wide)[both] / wide[both]).max(initial=0)
        print(
            f"{name}: values {relative:.1e} relative, {shifted:.1e} half-widths; half-widths {widths_change:.1e}; "
            f"infinite {np.sum(~np.isfinite(wide))} -> {np.sum(~np.isfinite(widths))}",
            flush=True,
        )
    if chosen.action == "record":
        np.savez(chosen.file, **kept)


if __name__ == "__main__":
    main()
