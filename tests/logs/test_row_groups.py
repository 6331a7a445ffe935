"""Parquet files in row groups of any size give the same columns."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.formats import parquet_table
from mindyn.logs.formats.parquet_table import ParquetTable, group_rows, read_footer
from mindyn.logs.log_errors import LogError

ROWS = 5000


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    lists = pl.Series("positions", rng.normal(size=(ROWS, 3)), dtype=pl.Array(pl.Float64, 3))
    stamps = pl.Series("stamp", np.arange(ROWS, dtype=np.int64) * 1_000_000)
    return pl.DataFrame([stamps, pl.Series("torque", rng.normal(size=ROWS)), lists])


@pytest.mark.parametrize("size", [ROWS, 1024, 700, 1])
def test_groups_are_those_that_were_written(table, tmp_path, size):
    rows = table[:40] if size == 1 else table
    rows.write_parquet(tmp_path / "log.parquet", row_group_size=size)
    assert sum(group_rows(read_footer(tmp_path / "log.parquet"))) == len(rows)
    assert max(group_rows(read_footer(tmp_path / "log.parquet"))) <= size


def test_a_large_group_is_read_column_by_column_to_the_same_values(table, tmp_path, monkeypatch):
    path = tmp_path / "log.parquet"
    table.write_parquet(path, row_group_size=ROWS)
    plain = list(ParquetTable(path).chunks(table.columns, 700))
    monkeypatch.setattr(parquet_table, "MAX_WHOLE_GROUP_ROWS", 1000)
    monkeypatch.setattr(pl.LazyFrame, "slice", None)  # the other way of reading would fail
    spooled = list(ParquetTable(path).chunks(table.columns, 700))
    assert len(spooled) == len(plain)
    for item, other in zip(plain, spooled, strict=True):
        for name in table.columns:
            assert item[name].dtype == other[name].dtype
            assert (item[name] == other[name]).all()


def test_a_truncated_file_is_named(table, tmp_path):
    path = tmp_path / "log.parquet"
    table.write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with raises(LogError, code=Code.UNREADABLE, subject="log.parquet"):
        read_footer(path)
