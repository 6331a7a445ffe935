"""What a study writes: tables for programs, the type's estimate for the other commands, a page for people."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from mindyn.executors import require_polars_threads
from mindyn.files import replace_folder_files, write_file_atomically
from mindyn.fleet.fleet import FleetMember, FleetStudy
from mindyn.fleet.page import fleet_page
from mindyn.fleet.template import SECONDS_PER_DAY

STUDY_FILES: Final = (
    "fleet.json",
    "estimate.json",
    "parameters.parquet",
    "differences.parquet",
    "excluded.parquet",
    "report.html",
)
"""What a study writes into its folder beside the factors; those of an earlier one are replaced at once."""


def write_study(out: Path, found: FleetStudy, record: Mapping[str, Any]) -> None:
    """All files of a study: all or none."""
    pointer = json.loads((out / "fleet.json").read_text(encoding="utf-8"))
    with replace_folder_files(out, STUDY_FILES) as folder:
        if found.type.estimate is not None:
            found.type.estimate.save(folder / "estimate.json")
        write_file_atomically(folder / "parameters.parquet", _write_parquet(parameter_rows(found)))
        write_file_atomically(folder / "differences.parquet", _write_parquet(difference_rows(found)))
        gone = {"log": [one.name for one in found.excluded], "reason": [one.reason for one in found.excluded]}
        write_file_atomically(folder / "excluded.parquet", _write_parquet(gone))
        summary = {**pointer, **summarise_study(found), "run": dict(record)}
        write_file_atomically(folder / "fleet.json", json.dumps(summary, indent=1) + "\n")
        write_file_atomically(folder / "report.html", fleet_page(found, record))


def _write_parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import polars as pl

    kinds = {"log": pl.String, "reason": pl.String, "robot": pl.String}
    require_polars_threads()
    file = BytesIO()
    pl.DataFrame(columns, schema_overrides={k: v for k, v in kinds.items() if k in columns}).write_parquet(file)
    return file.getvalue()


def parameter_rows(found: FleetStudy) -> dict[str, list[Any]]:
    """A row for every parameter of the type, of every robot and of every group."""
    levels = [
        ("type", found.type),
        *(("robot", one) for one in found.robots),
        *(("group", one) for one in found.groups),
    ]
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("level", *found.group_by, "parameter", "value", "deviation", "unit", "logs", "rows", "from", "to")
    }
    for level, member in levels:
        if member.estimate is None:
            continue
        days = _span(member)
        rows = zip(member.estimate.parameters, member.estimate.beta, member.deviations, strict=True)
        for one, value, deviation in rows:
            columns["level"].append(level)
            for k, name in enumerate(found.group_by):
                columns[name].append(member.key[k] if k < len(member.key) else None)
            columns["parameter"].append(one.name)
            columns["value"].append(float(value))
            columns["deviation"].append(float(deviation) if math.isfinite(deviation) else None)
            columns["unit"].append(one.unit)
            columns["logs"].append(member.logs)
            columns["rows"].append(member.rows)
            columns["from"].append(days[0])
            columns["to"].append(days[1])
    return columns


def _span(member: FleetMember) -> tuple[str | None, str | None]:
    if member.days is None:
        return None, None
    return day_text(member.days[0]), day_text(member.days[1])


def day_text(day: float) -> str:
    """A date as people write it."""
    return f"{datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC):%Y-%m-%d}"


def difference_rows(found: FleetStudy) -> dict[str, list[Any]]:
    """A row for everyone who differs or drifts, the most certain first."""
    return {
        "robot": [one.robot for one in found.differences],
        "what": [one.cause.what for one in found.differences],
        "where": [one.cause.where for one in found.differences],
        "drift": [one.drift for one in found.differences],
        "size": [one.size for one in found.differences],
        "deviation": [one.deviation for one in found.differences],
        "unit": [f"{one.cause.unit or 'of the type'}{'/year' if one.drift else ''}" for one in found.differences],
        "p": [one.p for one in found.differences],
        "alternatives": [
            "; ".join(f"{other.what} of {other.where}" for other in one.alternatives) for one in found.differences
        ],
        "sentence": [one.sentence for one in found.differences],
    }


def summarise_study(found: FleetStudy) -> dict[str, Any]:
    """The study in a few lines of JSON."""
    rows = difference_rows(found)
    return {
        "group_by": list(found.group_by),
        "robots": len(found.robots),
        "groups": len(found.groups),
        "logs": sum(one.logs for one in found.robots),
        "rows": sum(one.rows for one in found.robots),
        "gathered": found.gathered,
        "differences": [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)],
        "excluded": [{"log": one.name, "reason": one.reason} for one in found.excluded],
        "findings": [finding.to_dict() for finding in found.findings],
    }
