"""Find torques that never change, and replace them by zeros, because fits give zeros no weight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.log import Log
from mindyn.logs.log_errors import NO_TORQUE_HINT

CONSTANT_TORQUE_RANGE: Final = 1e-6
"""Range of a torque relative to its largest magnitude, up to which it counts as constant. Rates: f 0 of 100, m 0 of 100
(constant)."""


def is_constant(tau: Array) -> NDArray[np.bool_]:
    """Return which torques (n,) of (N, n) never change."""
    return np.asarray(np.ptp(tau, axis=0) <= CONSTANT_TORQUE_RANGE * np.abs(tau).max(axis=0))


def without_constant_torques(logs: list[Log]) -> list[Log]:
    """Return the logs with zeros for torques that never change, unless all torques are constant.

    A torque that is constant would be fitted almost exactly, and would therefore get more weight than every other
    torque. Fits give zeros no weight.
    """
    filled = [log for log in logs if len(log)]
    if not filled or len({log.tau.shape[1] for log in filled}) > 1:
        return logs
    dead = is_constant(np.concatenate([log.tau for log in filled]))
    return logs if dead.all() or not dead.any() else [replace(log, tau=np.where(dead, 0.0, log.tau)) for log in filled]


def require_torque(torques: Iterable[Array]) -> None:
    """Raise `InputError` if the torques (N, n) of all logs are zero in every row."""
    if not any(tau.any() for tau in torques):
        message = "no torque: it is zero in every row"
        raise InputError(message, hint=NO_TORQUE_HINT, code=Code.TOO_LITTLE_DATA, subject="torque")
