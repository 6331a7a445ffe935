"""`Playback`: a planned or recorded motion of a robot, with distances or torques in step with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, list_names
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.prediction.prediction import predict_log
from mindyn.kernels.model import compile_model
from mindyn.logs.log import Log
from mindyn.logs.pipeline import condition
from mindyn.motions.excitation.body_pairs import Encounters, gaps_of
from mindyn.motions.excitation.motion_design import REHEARSAL_SPEED
from mindyn.motions.excitation.motions import Run
from mindyn.robots.robot import Robot

POSES: Final = 800
"""Most poses of a motion; the page interpolates between them."""
MEASURED_POSES: Final = 240
"""Poses of a planned motion at which distances are measured."""
SPEED_ROWS: Final = 4000
"""Rows at which the largest speed of a planned motion is measured."""


@dataclass(frozen=True, slots=True, eq=False)
class Closest:
    """Closest pair of bodies at some times of a motion.

    time    (k,) s
    gap     (k,) m
    pair    (k,) number of the pair
    names   of each pair
    bodies  links of each pair by their names; "" for what does not move
    """

    time: Array
    gap: Array
    pair: NDArray[np.int64]
    names: tuple[str, ...]
    bodies: tuple[tuple[str, str], ...]

    def to_dict(self, robot: Robot) -> dict[str, Any]:
        """Return the pairs for the page, with links by their numbers; -1 for what does not move."""
        numbers = [[robot.link_index(link) + 1 if link else -1 for link in pair] for pair in self.bodies]
        used = sorted(set(self.pair.tolist()))
        return {
            "times": np.round(self.time, 4).tolist(),
            "gaps": np.round(self.gap, 5).tolist(),
            "pairs": [used.index(number) for number in self.pair.tolist()],
            "names": [self.names[number] for number in used],
            "links": [numbers[number] for number in used],
        }


@dataclass(frozen=True, slots=True, eq=False)
class Torques:
    """Torques (N, n) at times (N,), and who predicted them."""

    time: Array
    measured: Array
    predicted: Array | None
    model: str


@dataclass(frozen=True, slots=True, eq=False)
class Playback:
    """Positions (N, n) of the primary joints at times (N,).

    phases           name, begin and end of each part
    rehearsal_speed  fraction of the speed of the rehearsal; None if there is none
    residual         (N, n) size of the residual relative to the largest measured torque of the joint
    torque           (N, n) size of the measured torque relative to its largest value
    plot             name of the plot whose clicks select a time
    """

    title: str
    time: Array
    q: Array
    phases: tuple[tuple[str, float, float], ...] = ()
    rehearsal_speed: float | None = None
    closest: Closest | None = None
    torques: Torques | None = None
    residual: Array | None = None
    torque: Array | None = None
    plot: str = ""


def play_motion(robot: Robot, run: Run, encounters: Encounters | None) -> Playback:
    """Return a planned run: approach, motion and return, with the closest pair of bodies."""
    if run.joints != robot.primary_names:
        raise InputError(
            f"the motion has the joints {list_names(run.joints)}; the robot has {list_names(robot.primary_names)}",
            hint="pass the robot, --lock, --root and --tip with which the motion was designed",
            code=Code.DISAGREEMENT,
            subject="motion",
        )
    time = np.linspace(0.0, run.seconds, POSES)
    phases = [("motion", 0.0, run.seconds)]
    if run.approach is not None:
        way = run.approach.whole_s / run.speed
        end = run.seconds - way
        phases = [("approach", 0.0, way), ("motion", way, end), ("return", end, run.seconds)]
    playback = Playback("motion", time, run.derivative(time, 0), tuple(phases))
    if encounters is None:
        return playback
    return replace(
        playback, closest=measure_distances(encounters, run), rehearsal_speed=_rehearsal_speed(encounters, run)
    )


def measure_distances(encounters: Encounters, run: Run) -> Closest | None:
    """Return the closest pair along a run; None if no pair is checked."""
    bodies = encounters.bodies
    checked = [pair for pair in encounters.checked if pair.is_checked]
    if not checked:
        return None
    time = np.linspace(0.0, run.seconds, MEASURED_POSES)
    poses = bodies.poses(run.derivative(time, 0))
    gaps = np.stack([gaps_of(bodies, pair, poses, is_exact=True) for pair in checked], axis=1)
    nearest = gaps.argmin(axis=1)
    links = tuple(
        (bodies.volumes[pair.bodies[0]].link, "" if pair.bodies[1] < 0 else bodies.volumes[pair.bodies[1]].link)
        for pair in checked
    )
    names = tuple(" - ".join(pair.names) for pair in checked)
    return Closest(time, gaps.min(axis=1), nearest, names, links)


def _rehearsal_speed(encounters: Encounters, run: Run) -> float:
    """Return the fraction of the speed at which no volume exceeds the rehearsal speed."""
    time = np.linspace(0.0, run.seconds, SPEED_ROWS)
    corners = encounters.bodies.corners(run.derivative(time, 0))
    ways = np.linalg.norm(np.diff(corners, axis=0), axis=-1)
    fastest = float(ways.max(initial=0.0)) / (time[1] - time[0])
    return min(1.0, REHEARSAL_SPEED / fastest) if fastest > 0 else 1.0


def play_log(robot: Robot, log: Log, estimate: Estimate | None) -> Playback:
    """Return a recorded motion with measured and predicted torque: by an estimate, or else by the robot file."""
    if log.joint_names != robot.primary_names:
        raise InputError(
            f"the log has the joints {list_names(log.joint_names)}; the robot has {list_names(robot.primary_names)}",
            hint="pass the robot, --lock, --root and --tip with which the log was recorded",
            code=Code.DISAGREEMENT,
            subject=log.name or "log",
        )
    if estimate is not None:
        prediction = predict_log(estimate, log)
        torques = Torques(prediction.time, prediction.measured, prediction.predicted, "the estimate")
        q = prediction.samples.q
    else:
        conditioned = condition(robot, log)
        samples, predicted = conditioned.samples, None
        if robot.has_parameters:
            model = compile_model(robot, with_drives=bool(robot.drives))
            predicted = np.asarray(model.inverse_dynamics(samples.q, samples.qd, samples.qdd))
        torques = Torques(conditioned.time, samples.tau, predicted, "the robot file")
        q = samples.q
    return play_torques(log.name or "log", q, torques)


def play_torques(title: str, q: Array, torques: Torques) -> Playback:
    """Return a recorded motion q (N, n) with its torques; fewer poses are shown than there are rows."""
    rows = np.unique(np.linspace(0, len(q) - 1, POSES).astype(int))
    peak = np.abs(torques.measured).max(axis=0)
    peak = np.where(peak > 0, peak, 1.0)
    residual = None
    if torques.predicted is not None:
        sizes = np.abs(torques.measured[rows] - torques.predicted[rows]) / peak
        residual = np.clip(sizes, 0.0, 1.0)
    time = torques.time - torques.time[0]
    phases = (("log", 0.0, float(time[-1])),)
    used = np.abs(torques.measured[rows]) / peak
    return Playback(title, time[rows], q[rows], phases, None, None, replace(torques, time=time), residual, used)
