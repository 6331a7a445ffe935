"""Stamps that are written as dates or times of the day: integers of nanoseconds, whose unit is `ns`."""

from __future__ import annotations

import re
from typing import Final

import polars as pl
from polars.exceptions import PolarsError

DATE_PATTERN: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    r"|\d{1,2}:\d\d:\d\d(?:[.,]\d+)?$"
    r"|\d{1,2}[/.]\d{1,2}[/.]\d{4} \d{1,2}:\d\d:\d\d"
)
"""How a date with its time begins (ISO 8601, or with day and month before the year), or a whole time of the day."""


def parse_dates(texts: pl.Series) -> pl.Series | None:
    """Integers since 1970, null where a cell is no date; None where the first cell is none.

    Times of the day count from midnight. Month and day that slashes divide are taken in this order unless the first is
    above 12: between midnights, the only thing that a log asks, both are the same.
    """
    filled = texts.drop_nulls()
    if not len(filled) or not DATE_PATTERN.match(filled[0]):
        return None
    points = texts.str.replace(",", ".", literal=True)
    if ":" in filled[0][:3]:
        points = "1970-01-01 " + points
    try:
        dates = points.str.to_datetime(
            _date_format(points.drop_nulls()[0]), time_unit="ns", strict=False, ambiguous="earliest"
        )
    except PolarsError:
        return None
    return dates.dt.epoch("ns").rename(texts.name)


def _date_format(text: str) -> str | None:
    """How a date is written; None: as ISO 8601 has it."""
    if "-" in text:
        return None
    first, slash, _ = text.partition("/")
    day = "%d.%m.%Y" if not slash else "%d/%m/%Y" if int(first) > 12 else "%m/%d/%Y"
    return f"{day} %H:%M:%S%.f"
