"""Check logs of step-by-step tests against their planned motions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.applications.step_tests.step_rows import mean_speed
from mindyn.foundation.errors import Code, InputError
from mindyn.logs.log import Log
from mindyn.logs.log_errors import LogError
from mindyn.motions.step_plans.plan import StepPlan
from mindyn.motions.step_plans.step_motions import Breakaways, ConstantSpeed, StepMotion

PLANNED_ROWS: Final = 101
"""Rows of a planned motion with which the range of a log is compared."""


@dataclass(frozen=True, slots=True)
class LogChecks:
    """Tolerances within which logs must follow the plan.

    slip    rad or m that a held joint may move
    within  rad or m by which positions may differ from the plan
    speed   fraction of a planned speed by which it may differ
    """

    slip: float = 0.01
    within: float = 0.05
    speed: float = 0.2

    def require_all(self, plan: StepPlan, logs: Mapping[str, Log]) -> None:
        """Raise if a log is missing, unknown, of other joints, or does not follow its motion."""
        plan.require_motions(logs)
        for test in plan.tests:
            missing = [motion.name for motion in test.motions if motion.name not in logs]
            if missing:
                what = test.outcome() or "input of later tests"
                raise InputError(
                    f"test {test.name} is missing: no log of {', '.join(missing)}; it yields {what}",
                    hint="each test uses the results of earlier ones: record it, or plan again without it",
                    code=Code.MISSING_VALUE,
                    subject=missing[0],
                )
        for name, motion in plan.motions.items():
            self.require(plan, motion, logs[name])

    def require(self, plan: StepPlan, motion: StepMotion, log: Log) -> None:
        """Raise if a log does not follow the motion, and name the motion that it resembles."""
        if log.joint_names != plan.joints:
            raise LogError(
                f"the log of {motion.name} has the joints {', '.join(log.joint_names)}, "
                f"but the plan is of {', '.join(plan.joints)}",
                code=Code.DISAGREEMENT,
                subject=motion.name,
            )
        fault = self.fault(plan, motion, log)
        if fault is None:
            return
        others = [name for name, planned in plan.motions.items() if not self.fault(plan, planned, log)]
        alike = f"; it looks like {others[0]}" if others else ""
        raise LogError(
            f"the log of {motion.name} does not follow the plan: {fault}{alike}",
            hint="pass each log under the name of its own motion" if others else "",
            code=Code.DISAGREEMENT,
            subject=motion.name,
        )

    def fault(self, plan: StepPlan, motion: StepMotion, log: Log) -> str | None:
        """Return why a log does not follow this motion, or None."""
        low, high = log.q.min(axis=0), log.q.max(axis=0)
        for j, name in enumerate(plan.joints):
            if j in motion.joints:
                continue
            if high[j] - low[j] > self.slip:
                return f"joint {name!r}, which is held, slipped by {high[j] - low[j]:.3g} (allowed: {self.slip:g})"
            if abs((high[j] + low[j]) / 2 - motion.q[j]) > self.within:
                return f"joint {name!r} is held at {(high[j] + low[j]) / 2:.4g}, where the plan says {motion.q[j]:.4g}"
        if isinstance(motion, Breakaways):
            far = np.abs(log.q[:, motion.joint, None] - np.array(motion.positions)).min(axis=1)
            if far.max() > self.within:
                at = log.q[int(far.argmax()), motion.joint]
                planned = ", ".join(f"{position:.4g}" for position in motion.positions)
                return f"joint {plan.joints[motion.joint]!r} breaks away at {at:.4g}, where the plan says {planned}"
        elif isinstance(motion, ConstantSpeed):
            name, speed = plan.joints[motion.joint], mean_speed(log, motion.joint)
            if abs(speed - motion.speed) > self.speed * abs(motion.speed):
                return f"joint {name!r} moves at {speed:.3g} per s, where the plan says {motion.speed:.3g}"
        else:
            q = motion.trajectory(PLANNED_ROWS).q
            for j in motion.joints:
                ends = q[:, j].min(), q[:, j].max()
                if max(abs(low[j] - ends[0]), abs(high[j] - ends[1])) > self.within:
                    return (
                        f"joint {plan.joints[j]!r} moves between {low[j]:.4g} and {high[j]:.4g}, "
                        f"where the plan says {ends[0]:.4g} and {ends[1]:.4g}"
                    )
        return None


MAX_TRACKING_ERROR: Final = LogChecks()
"""Default tolerances."""
