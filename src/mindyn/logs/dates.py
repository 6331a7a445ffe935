"""Stamps that are written as dates: integers of nanoseconds, whose unit is `ns`."""

from __future__ import annotations

import re
from typing import Final

import polars as pl
from polars.exceptions import PolarsError

DATE: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
"""How a date with its time begins (ISO 8601)."""


def nanoseconds_of_dates(texts: pl.Series) -> pl.Series | None:
    """Integers since 1970, null where a cell is no date; None where the first cell is none."""
    filled = texts.drop_nulls()
    if not len(filled) or not DATE.match(filled[0]):
        return None
    try:
        dates = texts.str.replace(",", ".", literal=True).str.to_datetime(time_unit="ns", strict=False)
    except PolarsError:
        return None
    return dates.dt.epoch("ns").rename(texts.name)
