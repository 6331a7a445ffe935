"""Legs of a Unitree Go2 from position targets and positions: given gains against unknown ones.

    MINDYN_REAL_DATA=folder python -m benchmarks.identification.go2_legs [--record] [--training]

The split of the data set's notes: settings and values come from the first 65 % of the rows, errors from the last 35 %,
in signals below 15 Hz, with the gains of the note (kp = 20 N m/rad, kd = 1.5 N m s/rad) or with kp and kd unknown.
`--training` scores the training rows instead. A torque depends on the scale of the gains; the deflection target - q
does not: with given gains it is predicted as (tau + kd qd) / kp, with unknown ones as tau / kp, where tau contains kd.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))  # the folder of the sets is described there

# ruff: noqa: E402
from logs.real_sets import FOLDER

import mindyn
from benchmarks.sections import Section, arguments, publish
from benchmarks.timing import this_machine
from mindyn.foundation import Pose
from mindyn.identification.prediction.prediction import predict_log
from mindyn.logs import log_from_targets
from mindyn.logs.filters import lowpass
from mindyn.regression.friction import Friction

LEGS, JOINTS = ("FL", "FR", "RL", "RR"), ("hip", "thigh", "calf")
TRAINING, BAND_HZ, RATE_HZ = 0.65, 15.0, 200.0
GIVEN, UNKNOWN = (np.full(3, 20.0), np.full(3, 1.5)), ("unknown", "unknown")
NOTE = (14.2, 12.8, 21.6, 15.8)
"""Torque errors of the note, in percent, of a plain fit with a 15 Hz filter."""
FIXED = mindyn.EquationSettings(mindyn.Conditioning(motion_hz=37.5), BAND_HZ, 1, Friction("tanh", 0.05))


def leg_robot(leg: str) -> mindyn.Robot:
    """Return the leg with the geometry of the notes, without masses."""
    side = 0.0955 if leg[1] == "L" else -0.0955
    places = ((0.0, 0.0, 0.0), (0.0, side, 0.0), (0.0, 0.0, -0.213))
    axes = np.array([[1.0, 0, 0], [0, 1, 0], [0, 1, 0]])
    links = ("trunk", *(f"{joint}_link" for joint in JOINTS))
    joints = [
        mindyn.Joint(name, "revolute", links[k], links[k + 1], Pose(None, places[k]), axes[k])
        for k, name in enumerate(JOINTS)
    ]
    trunk, *moved = map(mindyn.Link, links)
    return mindyn.Robot(leg, trunk, tuple(joints), tuple(moved), np.array([0, 0, -9.81]))


def leg_logs(leg: str, gains) -> list[mindyn.Log]:
    """Return the training rows and the held-out rows of a leg."""
    table = polars.read_parquet(FOLDER / "go2_iit" / "chirp.parquet")
    cut, logs = int(TRAINING * len(table)), []
    for rows in (table[:cut], table[cut:]):
        q, target = (np.column_stack([rows[f"{s}_{leg}_{j}_rad"] for j in JOINTS]) for s in ("q", "target"))
        logs.append(log_from_targets(JOINTS, rows["t_s"], q.astype(float), target.astype(float), *gains))
    return logs


def errors_of(estimate: mindyn.Estimate, log: mindyn.Log) -> tuple[float, np.ndarray]:
    """Return the error of the torque, and of the deflection of each joint, below 15 Hz, in percent."""
    prediction = predict_log(estimate, log)
    kp = (
        GIVEN[0] if estimate.settings.conditioning.gains is None else np.array(estimate.settings.conditioning.gains[:3])
    )
    measured, difference, deflection = (
        lowpass(x, BAND_HZ, RATE_HZ)[prediction.scored]
        for x in (prediction.measured, prediction.residual, log.target - log.q)
    )
    torque = np.linalg.norm(difference) / np.linalg.norm(measured)
    return 100 * float(torque), 100 * np.linalg.norm(difference / kp, axis=0) / np.linalg.norm(deflection, axis=0)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--training", action="store_true", help="score the training rows; nothing is recorded")
    given = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit("MINDYN_REAL_DATA names no folder with the real logs")
    rows = [
        ("leg", "plain fit, torque", "15 Hz, torque", "torque", "target - q, given gains", "target - q, unknown gains")
    ]
    for leg, note in zip(LEGS, NOTE, strict=True):
        robot = leg_robot(leg)
        training, held_out = leg_logs(leg, GIVEN)
        blind, blind_held_out = leg_logs(leg, UNKNOWN)
        scored = (training, blind) if given.training else (held_out, blind_held_out)
        plain = mindyn.identify(robot, training, mindyn.LeastSquares(), FIXED)
        known, unknown = mindyn.identify(robot, training), mindyn.identify(robot, blind, scale="free")
        torque, each = errors_of(known, scored[0])
        cells = [f"{note} %", f"{errors_of(plain, scored[0])[0]:.1f} %", f"{torque:.1f} %"]
        for errors in (each, errors_of(unknown, scored[1])[1]):
            cells.append(", ".join(f"{error:.1f}" for error in errors) + " %")
        rows.append((leg, *cells))
    publish(
        Section(
            "go2_legs",
            "Legs of a Unitree Go2 without torques",
            "MINDYN_REAL_DATA=... python -m benchmarks.identification.go2_legs",
            this_machine(),
            [
                "Targets and positions of four legs, identified from the first 65 % of a chirp. Errors on the last 35 "
                "%, in signals below 15 Hz: of the torque with given gains (of the plain fit in the notes of the data "
                "set, of least squares with a 15 Hz filter, and with default settings), and of target - q at hip, "
                "thigh and calf with default settings, with given and with unknown gains."
            ],
            rows,
        ),
        record=given.record and not given.training,
    )


if __name__ == "__main__":
    main()
