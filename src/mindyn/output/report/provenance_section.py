"""Report section on provenance: command, settings, files with their hashes, versions."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any, Final

from mindyn.foundation.findings import Severity
from mindyn.foundation.pages.document import (
    Column,
    Content,
    Html,
    Section,
    class_tag,
    format_count,
    p,
    table,
    tag,
    typeset,
)
from mindyn.identification.estimators.estimate import Estimate
from mindyn.output.report.report_data import ReportData

REPORTED_PACKAGES: Final = ("mindyn", "numpy", "scipy", "casadi", "llvmlite", "polars")
HIDDEN_PROVENANCE: Final = ("tried", "projected")
"""Entries of the provenance that are results and not settings; the file of the estimate has them."""


def provenance_section(data: ReportData) -> Section:
    """Return the section with inputs, settings, versions, and the command that repeats the run."""
    repeat: Content = p("Identified from Python; the files and settings below reproduce it.")
    if words := data.run.get("command"):
        command = shlex.join([PurePath(words[0]).name, *words[1:]])  # without the folder of the program
        repeat = tag("pre", {"tabindex": "0", "role": "region", "aria-label": "Command"}, tag("code", {}, command))
    parts: list[Content] = [p(typeset(data.estimate.status)), tag("h3", {}, "Reproduce it"), repeat]
    if data.sources:
        rows = [
            [tag("code", {}, path), tag("code", {"class": "hash"}, digest)] for path, digest in data.sources.items()
        ]
        parts += [tag("h3", {}, "Files"), table([Column("File"), Column("SHA-256")], rows, "Files and their hashes")]
    if notes := list_notes(data.estimate):
        parts += [tag("h3", {}, "Notes"), tag("ul", {}, [tag("li", {}, typeset(note)) for note in notes])]
    settings = [(tag("code", {}, name), typeset(value)) for name, value in list_settings(data.estimate).items()]
    versions = {name: str(text) for name, text in (data.run.get("versions") or package_versions()).items() if text}
    parts += [
        _raw_table("Settings", "Setting", settings, "Settings of the fit"),
        _raw_table("Versions", "Package", versions.items(), "Versions of the packages"),
    ]
    return Section("making", "Provenance", parts)


def _raw_table(title: str, column: str, rows: Iterable[tuple[str, str]], caption: str) -> Html:
    shown = table([Column(column), Column("Value")], list(rows), caption)
    return class_tag("details", "raw", tag("summary", {}, title), shown)


def list_notes(estimate: Estimate) -> list[str]:
    """Return notes about the base parameters, the robot and the logs, each once."""
    findings = (*estimate.robot.findings, *estimate.findings)
    infos = [str(finding) for finding in findings if finding.severity is Severity.INFO]
    return list(dict.fromkeys([*estimate.base.notes, *infos]))


def list_settings(estimate: Estimate) -> dict[str, str]:
    """Return the settings of the fit by dotted names."""
    score = estimate.data.cross_validated
    return _flatten_settings(
        {
            "method": estimate.provenance.method,
            **{name: value for name, value in estimate.provenance.notes.items() if name not in HIDDEN_PROVENANCE},
            "settings": estimate.settings.to_dict(),
            "dropped": estimate.values.dropped,
            "cross_validated": None if score is None else asdict(score),
        }
    )


def _flatten_settings(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, value in values.items():
        name = f"{before}{key}"
        texts |= _flatten_settings(value, f"{name}.") if isinstance(value, Mapping) else {name: _format_setting(value)}
    return texts


def _format_setting(value: Any) -> str:
    if value is None or value == [] or value == ():
        return "none"
    if isinstance(value, float):
        return typeset(f"{value:.6g}")
    if isinstance(value, int) and not isinstance(value, bool):
        return format_count(value)
    return ", ".join(map(_format_setting, value)) if isinstance(value, (list, tuple)) else str(value)


def package_versions() -> dict[str, str | None]:
    """Return the versions of Python and the packages that affect a result; None if not installed."""
    return {"python": platform.python_version(), **{name: _find_version(name) for name in REPORTED_PACKAGES}}


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
