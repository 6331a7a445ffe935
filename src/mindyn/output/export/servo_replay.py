"""Replay logs in MuJoCo with an exported MJCF file of a servo estimate, as the file is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.identification.servos.mjcf_simulation import simulate_mjcf
from mindyn.identification.servos.replay import ServoReplay, score_positions
from mindyn.identification.servos.servo_estimate import ServoEstimate
from mindyn.identification.servos.simulation import simulate_servo_rows
from mindyn.logs.log import Log

MAX_RATIO: Final = 1.2
"""Largest error of MuJoCo relative to the error of mindyn's simulation of the estimate."""
NEGLIGIBLE_ERROR: Final = 2e-4
"""Differences below this (rad, m) do not count: steps of 2 ms alone cause them."""


@dataclass(frozen=True, slots=True, eq=False)
class ExportedReplay:
    """Errors of the same logs in the simulation of an estimate and in MuJoCo with its exported file."""

    internal: ServoReplay
    mujoco: ServoReplay

    @property
    def ratios(self) -> Array:
        """Errors (n,) of MuJoCo relative to those of mindyn's simulation of the estimate."""
        return np.asarray(self.mujoco.errors / np.maximum(self.internal.errors, 1e-12))

    @property
    def is_faithful(self) -> bool:
        """Whether MuJoCo is at most 1.2 times worse at every joint."""
        return bool((self.mujoco.errors <= MAX_RATIO * self.internal.errors + NEGLIGIBLE_ERROR).all())


def replay_in_mujoco(estimate: ServoEstimate, path: str | Path, logs: Sequence[Log]) -> ExportedReplay:
    """Return the errors of logs in the simulation of an estimate, and in MuJoCo with the MJCF file at `path`.

    MuJoCo uses the file's own step, solver and actuators; the meshes and contacts of the file are not needed.

    Raises `ExportError` if the file lacks a joint or its actuator, or the simulation diverges.
    """
    rows, ours = simulate_servo_rows(estimate, logs)
    theirs = simulate_mjcf(path, estimate.robot, logs, estimate.delay_s)
    return ExportedReplay(score_positions(estimate, logs, rows, ours), score_positions(estimate, logs, rows, theirs))
