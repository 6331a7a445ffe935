"""Replace constant positions of links that have no encoder by the positions of their motors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.logs.cleaning import MAX_STILL_RANGE

if TYPE_CHECKING:
    from mindyn.logs.log import Log


def replace_still_links(log: Log) -> Log:
    """Return the log with the positions of motors for joints whose motor moves while the logged link position is
    constant.
    """
    if log.motor_q is None or not len(log):
        return log
    motor, link = np.ptp(log.motor_q, axis=0), np.ptp(log.q, axis=0)
    still = (motor > MAX_STILL_RANGE) & (link <= MAX_STILL_RANGE * motor)
    if not still.any():
        return log
    names = tuple(name for name, is_still in zip(log.joint_names, still, strict=True) if is_still)
    message = f"the position of {', '.join(names)} never changes: the position of the motor is used instead"
    finding = Finding(Kind.LOG_SETTING, Severity.INFO, message, joints=names)
    q = np.where(still, log.motor_q, log.q)
    return replace(log, q=q, qd=None, qdd=None, findings=(*log.findings, finding))
