"""The delay between torque and motion: estimated to a hundredth of a row, and reported if it is noticeable.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close

from mindyn.logs.delay_scan import DelayScan, _select_compared_rows, joint_columns, keeps_sign, scan_delay
from mindyn.logs.samples import Samples


def delayed_samples(seconds, rate=200.0, rows=3000):
    t = np.arange(rows) / rate
    q = np.column_stack([np.sin(1.3 * t), np.cos(2.1 * t)])
    qd = np.column_stack([1.3 * np.cos(1.3 * t), -2.1 * np.sin(2.1 * t)])
    late = t - seconds
    tau = np.column_stack([-np.sin(1.3 * late) * 1.69, -np.cos(2.1 * late) * 4.41])
    qdd = np.column_stack([-np.sin(1.3 * t) * 1.69, -np.cos(2.1 * t) * 4.41])
    return Samples(("a", "b"), q, qd, qdd, tau, rate, np.zeros(rows, dtype=np.int64))


@pytest.mark.parametrize("seconds", [0.03, -0.0123, 0.0999])
def test_a_delay_is_found_to_a_hundredth_of_a_row(seconds):
    samples = delayed_samples(seconds)
    result = DelayScan(samples, lambda rows: [qdd[rows, None] for qdd in samples.qdd.T]).best()
    assert abs(result.seconds - seconds) < 2 * 0.01 / 200
    assert result.unexplained < 1e-6 < result.unexplained_without


def test_rows_next_to_the_ends_of_segments_are_not_compared():
    segments = np.repeat([0, 1, 2], [30, 5, 40])
    assert _select_compared_rows(segments, 3).tolist() == [*range(3, 27), *range(38, 72)]
    assert _select_compared_rows(segments, 20).size == 0
    many = _select_compared_rows(np.zeros(60_000, dtype=int), 10)
    assert 1250 < len(many) <= 2500
    assert set(np.diff(many)) == {24}


def test_a_speed_is_steady_where_its_sign_stays_for_the_whole_reach():
    speed = np.concatenate([np.ones(10), -np.ones(10)])
    assert np.flatnonzero(~keeps_sign(speed, 3)).tolist() == [7, 8, 9, 10, 11, 12]
    assert keeps_sign(-np.ones(8), 3).all()


def test_torque_without_change_has_no_delay():
    samples = delayed_samples(0.0)
    constant = replace(samples, tau=np.ones_like(samples.tau))
    delay = scan_delay(constant)
    assert delay.unexplained == delay.unexplained_without == 1.0
    short = scan_delay(samples.take(slice(0, 120)))
    assert (short.seconds, short.unexplained, short.unexplained_without) == (0.0, 1.0, 1.0)
    fewest = 100 + 2 * (20 + 2 * 5)  # compared rows, and on either side the longest delay and the interpolation's
    for rows, enough in ((fewest, True), (fewest - 1, False)):
        scan = DelayScan(samples.take(slice(0, rows)), lambda index: [np.ones((len(index), 1))] * 2)
        assert scan.is_enough == enough


def test_columns_without_a_model_hold_what_a_joint_can_feel():
    samples = delayed_samples(0.0, rows=50)
    Y = joint_columns(samples.q, samples.qd, samples.qdd)
    assert Y.shape == (50, 2, 1 + 2 + 2 + 2 + 2)
    assert_close(Y[:, 1, :7], np.column_stack([np.ones(50), np.sin(samples.q), np.cos(samples.q), samples.qdd]), EXACT)
    rms = np.sqrt((samples.qd**2).mean(axis=0))
    assert_close(Y[:, :, 7], samples.qd, EXACT)
    assert_close(Y[:, :, 8], np.tanh(samples.qd / (0.05 * rms)), SAME_ALGEBRA)
    resting = joint_columns(samples.q, 0 * samples.qd, samples.qdd)
    assert not resting[:, :, 7:].any()


def test_a_delay_is_noted_from_one_row_on():
    def drawn(seconds):
        """Torque that only its own motion explains: no sum of other columns is a shifted one."""
        t = np.arange(3000) / 200
        tones = [(0.7, 1.0), (1.9, 0.6), (3.1, 0.5), (5.3, 0.3)]

        def of(s):
            return sum(size * np.sin(w * s + w) for w, size in tones)

        q, tau = of(t), -sum(size * w * w * np.sin(w * (t - seconds) + w) for w, size in tones)
        qd = sum(size * w * np.cos(w * t + w) for w, size in tones)
        qdd = -sum(size * w * w * np.sin(w * t + w) for w, size in tones)
        arrays = [np.column_stack([item]) for item in (q, qd, qdd, tau)]
        return scan_delay(Samples(("a",), *arrays, 200.0, np.zeros(len(t), dtype=np.int64)))

    assert drawn(0.03).is_noticeable
    assert drawn(0.03).seconds == pytest.approx(0.03, abs=1e-3)
    assert not drawn(0.0).is_noticeable


def test_torque_that_is_explained_to_rounding_is_in_step():
    """Every shift of two sines is a sum of the columns: rounding errors do not determine a delay."""
    samples = delayed_samples(0.03)
    delay = scan_delay(samples)
    assert max(delay.unexplained, delay.unexplained_without) < 1e-12
    assert not delay.is_noticeable
