"""Text logs that begin with comments, and stamps that are dates, in text and in Parquet."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code
from mindyn.logs.log_errors import LogError

ARM = mindyn.load_robot("planar2")
NAMES = ["t", "q1", "q2", "tau1", "tau2"]
STATED = {
    "side": "joint",
    "columns": {"time": "t", "position": "q{i}", "torque": "tau{i}"},
    "units": {"time": "s", "position": "rad", "torque": "N m"},
}
IN_NS = {**STATED, "units": {**STATED["units"], "time": "ns"}}
T = np.arange(300) / 200
VALUES = np.column_stack([np.sin(T), np.cos(3 * T), np.cos(T), np.sin(2 * T)])
START = datetime(2026, 1, 2, 3, 4, 5)


def rows_of_text(stamps=None, separator=","):
    cells = [map(repr, VALUES[k].tolist()) for k in range(len(T))]
    first = list(map(repr, T.tolist())) if stamps is None else stamps
    return "\n".join(separator.join([stamp, *row]) for stamp, row in zip(first, cells, strict=True)) + "\n"


@pytest.mark.parametrize(
    "beginning",
    [
        "# rig 7\n# recorded on Monday, by hand\n" + ",".join(NAMES),
        "% " + ",".join(NAMES),
        "// rig 7\n//" + ",".join(NAMES),
        "\ufeff# rig 7\n" + ",".join(NAMES),
        "# one, two, three, four, five words in a comment\n# rig\n" + ",".join(NAMES),
    ],
)
def test_lines_of_comment_come_before_the_header(tmp_path, beginning):
    (tmp_path / "log.csv").write_text(beginning + "\n" + rows_of_text(), encoding="utf-8")
    log = mindyn.read_log(tmp_path / "log.csv", ARM, metadata=STATED)
    assert np.array_equal(log.time, T)
    assert np.array_equal(np.hstack([log.q, log.tau]), VALUES)


def test_what_numpy_writes_is_read(tmp_path):
    np.savetxt(tmp_path / "log.txt", np.column_stack([T, VALUES]), header=" ".join(NAMES))
    log = mindyn.read_log(tmp_path / "log.txt", ARM, metadata=STATED)
    assert np.array_equal(np.column_stack([log.time, log.q, log.tau]), np.column_stack([T, VALUES]))


@pytest.mark.parametrize(("between", "end"), [("T", ""), (" ", ""), ("T", "Z"), ("T", "+02:00")])
def test_dates_are_stamps_in_nanoseconds(tmp_path, between, end):
    stamps = [(START + timedelta(seconds=t)).isoformat(between, "microseconds") + end for t in T]
    (tmp_path / "log.csv").write_text(",".join(NAMES) + "\n" + rows_of_text(stamps))
    log = mindyn.read_log(tmp_path / "log.csv", ARM, metadata=IN_NS)
    assert np.allclose(log.time, T, rtol=0, atol=1e-9)
    assert np.array_equal(log.tau, VALUES[:, 2:])


def test_a_date_that_is_none_is_rejected_with_its_row(tmp_path):
    stamps = [(START + timedelta(seconds=t)).isoformat() for t in T]
    stamps[7] = "yesterday"
    (tmp_path / "log.csv").write_text(",".join(NAMES) + "\n" + rows_of_text(stamps))
    with raises(LogError, code=Code.WRONG_TYPE, subject="t"):
        mindyn.read_log(tmp_path / "log.csv", ARM, metadata=IN_NS)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_dates_and_durations_of_parquet(tmp_path, unit):
    since = pl.Series("t", np.round(T * 1e9).astype(np.int64)).cast(pl.Duration("ns")).cast(pl.Duration(unit))
    dates = pl.Series("t", [START]).cast(pl.Datetime(unit)).extend_constant(START, len(T) - 1) + since
    for column in (since, dates.rename("t")):
        table = pl.DataFrame([column, *(pl.Series(n, VALUES[:, k]) for k, n in enumerate(NAMES[1:]))])
        table.write_parquet(tmp_path / "log.parquet")
        log = mindyn.read_log(tmp_path / "log.parquet", ARM, metadata=IN_NS)
        assert np.allclose(log.time, T, rtol=0, atol=1e-9)


def test_dates_declared_as_seconds_are_rejected(tmp_path):
    stamps = [(START + timedelta(seconds=t)).isoformat() for t in T]
    (tmp_path / "log.csv").write_text(",".join(NAMES) + "\n" + rows_of_text(stamps))
    with raises(LogError, code=Code.WRONG_UNIT, subject="rate"):
        mindyn.condition(ARM, mindyn.read_log(tmp_path / "log.csv", ARM, metadata=STATED))


def test_other_formats_are_rejected_with_a_hint(tmp_path):
    for name, advice in (("log.csv.gz", "decompress"), ("log.bag", "rosbags-convert"), ("log.xlsx", "CSV or Parquet")):
        (tmp_path / name).write_bytes(b"something")
        with raises(LogError, code=Code.UNSUPPORTED, subject=name) as raised:
            mindyn.read_log(tmp_path / name, ARM, metadata=STATED)
        assert advice in raised.value.hint
    (tmp_path / "log.csv").write_bytes(rows_of_text().encode("utf-16"))
    with raises(LogError, code=Code.WRONG_FORMAT, subject="log.csv"):
        mindyn.read_log(tmp_path / "log.csv", ARM, metadata=STATED)
