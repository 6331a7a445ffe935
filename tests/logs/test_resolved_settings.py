"""Settings that a log decides: its rate, its period, its stamps, and the rows that follow from seconds.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.foundation.findings import Kind
from mindyn.logs.conditioning import AS_LOGGED, DIFFERENCE_ROWS, Conditioning, edge_rows, reach_rows
from mindyn.logs.log import Log, log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.pipeline import condition, require_samples
from mindyn.logs.resolving import _resolve_time_base, _round_rate, estimate_period, resolve_conditioning
from mindyn.robots.loading import load_robot

ROBOT = load_robot("planar2")


def log_at(time, names=ROBOT.joint_names):
    q = np.column_stack([np.sin((1 + k) * time) for k in range(len(names))])
    return log_from_arrays(names, time, q, 2 * q)


def test_the_period_is_that_of_the_usual_steps():
    steps = np.full(100, 0.01)
    steps[:4] = 1.0  # gaps, fewer than one in twenty
    assert_close(estimate_period(steps), 0.01, SAME_ALGEBRA)
    steps[:4] = 1e-3  # nor do stamps that were written late
    assert_close(estimate_period(steps), 0.01, SAME_ALGEBRA)
    jittered = np.where(np.arange(100) % 2, 0.008, 0.012)
    jittered[0] = 5.0
    assert_close(estimate_period(jittered), jittered[1:].mean(), SAME_ALGEBRA)
    assert [_round_rate(rate) for rate in (499.97, 500.04, 499.9, 0.4)] == [500.0, 500.0, 499.9, 0.4]


def test_logs_of_two_rates_are_sampled_at_the_lowest_unless_a_rate_is_given():
    logs = [log_at(np.arange(200) / rate) for rate in (100.0, 103.0)]
    for both in (logs, logs[::-1]):
        created, (note, *_) = resolve_conditioning(replace(AS_LOGGED, stamps="auto"), both, lambda *_: None)
        assert created.rate_hz == 100.0
        assert (note.kind, note.details) == (Kind.LOG_SETTING, ("rate_hz",))
    settings = replace(AS_LOGGED, stamps="auto", velocity="differentiated", acceleration="differentiated")
    assert len(condition(ROBOT, logs, settings).samples) == 200 + 194
    for slow in (9.9, 10.1):
        apart = [log_at(np.arange(200) / rate) for rate in (100.0, slow)]
        if slow > 10:
            assert (
                resolve_conditioning(replace(AS_LOGGED, stamps="auto"), apart, lambda *_: None)[0].stamps == "measured"
            )
            continue
        with raises(LogError, code=Code.DISAGREEMENT, subject="rate_hz"):
            resolve_conditioning(replace(AS_LOGGED, stamps="auto"), apart, lambda *_: None)
    created, notes = resolve_conditioning(replace(AS_LOGGED, rate_hz=100.0, stamps="auto"), logs, lambda *_: None)
    assert (created.rate_hz, created.stamps) == (100.0, "uniform")
    assert notes == ()
    created, notes = resolve_conditioning(replace(AS_LOGGED, rate_hz=90.0, stamps="auto"), logs, lambda *_: None)
    assert created.stamps == "measured"
    assert [note.kind for note in notes] == ["time stamps"]
    near = [log_at(np.arange(200) / rate) for rate in (100.0, 101.5)]
    assert resolve_conditioning(AS_LOGGED, near, lambda *_: None)[0].rate_hz == 100.0
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="rate_hz"):
        resolve_conditioning(AS_LOGGED, [log_at(np.zeros(1))], lambda *_: None)


def test_what_resolve_chooses_is_known():
    log = log_at(np.arange(400) / 100)
    created, notes = resolve_conditioning(Conditioning(delay_s="auto"), [log], lambda *_: 4.0)
    assert (created.rate_hz, created.motion_hz, created.edge_s) == (100.0, 4.0, 0.125)
    assert created.is_resolved
    assert [note.details for note in notes] == [("motion_hz",), ("edge_s",), ("delay_s",)]
    assert resolve_conditioning(created, [log], lambda *_: 9.0) == (created, ())
    assert "no filter" in str(resolve_conditioning(Conditioning(), [log], lambda *_: None)[1][0])


def test_fewer_samples_than_required_are_rejected_with_the_reason():
    require_samples(10, [])
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="samples"):
        require_samples(9, [])
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="samples") as rejected:
        require_samples(3, ["rows 0 to 9 left out", "a gap"], 4)
    assert rejected.value.hint.startswith("rows 0 to 9 left out; a gap")


def test_slow_rows_are_computed_from_moving_ones():
    t = np.arange(300) / 100
    q = np.column_stack([np.where(t < 1.0, t, 1.0), 0.2 * t])
    qd = np.column_stack([np.where(t < 1.0, 1.0, 0.0), 0.2 + 0 * t])
    log = log_from_arrays(ROBOT.joint_names, t, q, q, qd, 0 * q)
    settings = replace(AS_LOGGED, rate_hz=100.0, slow_speed=0.2)
    created = condition(ROBOT, log, settings)
    assert created.samples.usable.sum(axis=0).tolist() == [100, 0]  # as fast as the bound is not faster


def test_measured_stamps_are_not_treated_as_bursts():
    even = np.arange(2000) * 0.01
    stamps = even[7::8].repeat(8) + 1e-3 * np.tile(np.arange(8), 250) / 8
    q = np.column_stack([np.sin(3 * even), np.cos(2 * even)])
    log = Log(("a", "b"), stamps, q, q, np.arange(2000))
    result, notes = _resolve_time_base(Conditioning(rate_hz=100.0, stamps="measured"), [log])
    assert (result.stamps, result.longest_gap_rows, notes) == ("measured", 2.5, [])


def test_rows_follow_from_seconds():
    c = Conditioning(rate_hz=100.0, edge_s=0.12, motion_hz=None)
    assert edge_rows(c) == 12
    plain = reach_rows(replace(c, edge_s=0.0))
    assert plain == DIFFERENCE_ROWS + 5 + 2
    assert reach_rows(c) == plain + 12
    for delay_s in (0.03, -0.03):
        assert reach_rows(replace(c, edge_s=0.0, delay_s=delay_s)) == plain + 3
