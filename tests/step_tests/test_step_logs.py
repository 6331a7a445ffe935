"""Logs of step-by-step tests: values that are read, and errors that name their subject."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.applications.step_tests.step_by_step import StepByStep
from mindyn.foundation.errors import Code, InputError, UnknownNameError
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.robots.loading import load_robot


def test_logs_with_rest_between_breakaways_are_read(puma, plan, logs):
    log = logs["static-01-1"]
    rest = log_from_arrays(log.joint_names, log.time + 0.5, log.q, 0 * log.tau, np.zeros_like(log.q))
    order = np.argsort(np.concatenate([log.time, rest.time]))
    parts = {k: np.concatenate([getattr(log, k), getattr(rest, k)])[order] for k in ("time", "q", "tau", "qd")}
    ramped = log_from_arrays(log.joint_names, **parts)
    item, other = (StepByStep().fit(puma, plan, {**logs, "static-01-1": each}) for each in (log, ramped))
    assert_close(other.beta, item.beta, SAME_ALGEBRA)


def test_a_missing_test_is_named(puma, plan, logs):
    left = {name: log for name, log in logs.items() if name != "accelerated-04-2"}
    with raises(InputError, Code.MISSING_VALUE, "accelerated-04-2"):
        StepByStep().fit(puma, plan, left)
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "dance"):
        StepByStep().fit(puma, plan, {**logs, "dance": logs["static-01-1"]})


def test_a_joint_that_slipped_is_named(puma, plan, logs):
    log = logs["accelerated-08-1"]
    slipped = log.q.copy()
    slipped[:, 4] += np.linspace(0, 0.03, len(log))
    with raises(LogError, Code.DISAGREEMENT, "accelerated-08-1"):
        StepByStep().fit(puma, plan, {**logs, "accelerated-08-1": replace(log, q=slipped)})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("accelerated-02-1", "accelerated-02-2"),
        ("accelerated-11-1", "accelerated-12-1"),
        ("constant-velocity-03-1", "constant-velocity-03-2"),
        ("static-02-1", "static-03-1"),
    ],
)
def test_a_log_of_the_wrong_test_is_recognised(puma, plan, logs, one, other):
    swapped = {**logs, one: logs[other], other: logs[one]}
    with raises(LogError, Code.DISAGREEMENT, one) as raised:
        StepByStep().fit(puma, plan, swapped)
    assert raised.value.message.endswith(f"it looks like {other}")


def test_a_log_that_follows_no_plan_is_rejected(puma, plan, logs):
    log = logs["accelerated-01-1"]
    moved = log.q + np.array([0, 0, 0, 0.5, 0, 0])
    with raises(LogError, Code.DISAGREEMENT, "accelerated-01-1"):
        StepByStep().fit(puma, plan, {**logs, "accelerated-01-1": replace(log, q=moved)})
    still = np.tile(log.q.mean(axis=0), (len(log), 1))
    with raises(LogError, Code.DISAGREEMENT, "accelerated-01-1"):
        StepByStep().fit(puma, plan, {**logs, "accelerated-01-1": replace(log, q=still)})
    names = (*log.joint_names[:-1], "tool")
    with raises(LogError, Code.DISAGREEMENT, "accelerated-01-1"):
        StepByStep().fit(puma, plan, {**logs, "accelerated-01-1": replace(log, joint_names=names)})


def test_breakaways_in_one_direction_only_are_rejected(puma, plan, logs):
    forwards = logs["static-03-1"].take(logs["static-03-1"].qd[:, 3] > 0)
    with raises(LogError, Code.TOO_LITTLE_DATA, "joint4"):
        StepByStep().fit(puma, plan, {**logs, "static-03-1": forwards})
    none = logs["static-03-1"].take(slice(2, None))
    with raises(LogError, Code.TOO_LITTLE_DATA, "joint4"):
        StepByStep().fit(puma, plan, {**logs, "static-03-1": none})
    with raises(LogError, Code.MISSING_VALUE, "velocity"):
        StepByStep().fit(puma, plan, {**logs, "static-03-1": replace(logs["static-03-1"], qd=None)})


def test_breakaways_with_negative_friction_are_rejected(puma, plan, logs):
    log = logs["static-04-1"]
    turned = {**logs, "static-04-1": replace(log, qd=-log.qd)}
    with raises(LogError, Code.DISAGREEMENT, "joint3"):
        StepByStep().fit(puma, plan, turned)
    assert StepByStep(slack=1e3).fit(puma, plan, turned).values.unidentifiable == ()


def test_logs_that_cannot_be_integrated_are_rejected(puma, plan, logs):
    log = logs["accelerated-01-1"]
    with raises(LogError, Code.TOO_LITTLE_DATA, "accelerated-01-1"):
        StepByStep().fit(puma, plan, {**logs, "accelerated-01-1": log.take(slice(None, None, 30))})
    uneven = {**logs, "accelerated-01-1": log.take(np.arange(len(log)) % 7 > 0)}
    with raises(LogError, Code.UNSUPPORTED, "accelerated-01-1"):
        StepByStep(rule="gregory").fit(puma, plan, uneven)
    assert_close(StepByStep().fit(puma, plan, uneven).beta, StepByStep().fit(puma, plan, logs).beta, 1e-3)
    few = logs["constant-velocity-01-1"].take(slice(None, None, 50))
    with raises(LogError, Code.TOO_LITTLE_DATA, "constant-velocity-01-1"):
        StepByStep().fit(puma, plan, {**logs, "constant-velocity-01-1": few})


def test_settings_and_plans_of_other_robots_are_rejected(plan, logs):
    with raises(InputError, Code.UNKNOWN_NAME, "simpson"):
        StepByStep(rule="simpson")
    with raises(InputError, Code.UNKNOWN_NAME, "guess"):
        StepByStep(solution="guess")
    with raises(InputError, Code.DISAGREEMENT, "puma560_yoshida"):
        StepByStep().fit(load_robot("stanford"), plan, logs)
