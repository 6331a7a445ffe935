"""Parse stamps that are written as dates or times of day into integer nanoseconds (unit `ns`)."""

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
"""Start of a date with a time (ISO 8601, or day and month before the year), or a complete time of day."""


def parse_dates(texts: pl.Series) -> pl.Series | None:
    """Parse dates to nanoseconds since 1970.

    Cells that are not dates are null; the result is None if the first cell is not a date.

    Times of day count from midnight. In a date with slashes the month comes first unless the first number is above 12:
    time differences within a day, which are all that a log needs, are the same in both orders.
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
    """Return the format of a date; None for ISO 8601."""
    if "-" in text:
        return None
    first, slash, _ = text.partition("/")
    day = "%d.%m.%Y" if not slash else "%d/%m/%Y" if int(first) > 12 else "%m/%d/%Y"
    return f"{day} %H:%M:%S%.f"
