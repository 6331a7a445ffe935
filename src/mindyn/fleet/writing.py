"""Files of a study: tables for programs, the estimate of the type, and a page for people."""

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
"""Files of a study in its folder besides the factors; they replace those of an earlier study together."""


def write_study(study: FleetStudy, out: Path, record: Mapping[str, Any]) -> tuple[Path, ...]:
    """Write all files of a study, or none if an error occurs; return their paths."""
    pointer = json.loads((out / "fleet.json").read_text(encoding="utf-8"))
    with replace_folder_files(out, STUDY_FILES) as folder:
        if study.type.estimate is not None:
            study.type.estimate.save(folder / "estimate.json")
        write_file_atomically(folder / "parameters.parquet", _write_parquet(parameter_rows(study)))
        write_file_atomically(folder / "differences.parquet", _write_parquet(difference_rows(study)))
        excluded = {"log": [log.name for log in study.excluded], "reason": [log.reason for log in study.excluded]}
        write_file_atomically(folder / "excluded.parquet", _write_parquet(excluded))
        summary = {**pointer, **summarise_study(study), "run": dict(record)}
        write_file_atomically(folder / "fleet.json", json.dumps(summary, indent=1) + "\n")
        write_file_atomically(folder / "report.html", fleet_page(study, record))
    return tuple(out / name for name in STUDY_FILES if (out / name).is_file())


def _write_parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import polars as pl

    kinds = {"log": pl.String, "reason": pl.String, "robot": pl.String}
    require_polars_threads()
    file = BytesIO()
    pl.DataFrame(columns, schema_overrides={k: v for k, v in kinds.items() if k in columns}).write_parquet(file)
    return file.getvalue()


def parameter_rows(study: FleetStudy) -> dict[str, list[Any]]:
    """Return a row for every parameter of the type, of every robot and of every group."""
    levels = [
        ("type", study.type),
        *(("robot", member) for member in study.robots),
        *(("group", member) for member in study.groups),
    ]
    names = ("level", *study.group_by, "parameter", "value", "deviation", "unit", "logs", "rows", "from", "to")
    rows: list[tuple[Any, ...]] = []
    for level, member in levels:
        if member.estimate is None:
            continue
        key = [*member.key, *[None] * len(study.group_by)][: len(study.group_by)]
        numbers = zip(member.estimate.parameters, member.estimate.beta, member.deviations, strict=True)
        for parameter, value, deviation in numbers:
            known = float(deviation) if math.isfinite(deviation) else None
            value_and_unit = (parameter.name, float(value), known, parameter.unit)
            rows.append((level, *key, *value_and_unit, member.logs, member.rows, *_span(member)))
    return {name: [row[k] for row in rows] for k, name in enumerate(names)}


def _span(member: FleetMember) -> tuple[str | None, str | None]:
    if member.days is None:
        return None, None
    return day_text(member.days[0]), day_text(member.days[1])


def day_text(day: float) -> str:
    """Format a day as a date."""
    return f"{datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC):%Y-%m-%d}"


def difference_rows(study: FleetStudy) -> dict[str, list[Any]]:
    """Return a row for every robot that differs or drifts, most significant first."""
    return {
        "robot": [difference.robot for difference in study.differences],
        "what": [difference.cause.what for difference in study.differences],
        "where": [difference.cause.where for difference in study.differences],
        "drift": [difference.drift for difference in study.differences],
        "size": [difference.size for difference in study.differences],
        "deviation": [difference.deviation for difference in study.differences],
        "unit": [
            f"{difference.cause.unit or 'of the type'}{'/year' if difference.drift else ''}"
            for difference in study.differences
        ],
        "p": [difference.p for difference in study.differences],
        "alternatives": [
            "; ".join(f"{other.what} of {other.where}" for other in difference.alternatives)
            for difference in study.differences
        ],
        "sentence": [difference.sentence for difference in study.differences],
    }


def summarise_study(study: FleetStudy) -> dict[str, Any]:
    """Return a summary of the study for JSON."""
    rows = difference_rows(study)
    return {
        "group_by": list(study.group_by),
        "robots": len(study.robots),
        "groups": len(study.groups),
        "logs": sum(member.logs for member in study.robots),
        "rows": sum(member.rows for member in study.robots),
        "gathered": study.gathered,
        "differences": [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)],
        "excluded": [{"log": log.name, "reason": log.reason} for log in study.excluded],
        "findings": [finding.to_dict() for finding in study.findings],
    }
