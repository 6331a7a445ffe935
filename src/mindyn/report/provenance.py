"""Provenance of a result: command, settings, files with their hashes, versions."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any, Final

from mindyn.findings import Severity
from mindyn.pages.document import format_count, typeset
from mindyn.report.data import ProvenanceData
from mindyn.report.inputs import ReportInputs

REPORTED_PACKAGES: Final = ("mindyn", "numpy", "scipy", "casadi", "llvmlite", "polars")
HIDDEN_PROVENANCE: Final = ("tried", "projected")
"""Entries of the provenance that are results and not settings; the file of the estimate has them."""


def collect_provenance(inputs: ReportInputs) -> ProvenanceData:
    """Collect provenance from the settings of the estimate and the record of the run, if given."""
    estimate, run = inputs.estimate, inputs.run
    score = estimate.cross_validated
    kept = {
        "method": estimate.method,
        **{name: value for name, value in estimate.provenance.items() if name not in HIDDEN_PROVENANCE},
        "settings": estimate.settings.to_dict(),
        "dropped": estimate.dropped,
        "cross_validated": None if score is None else asdict(score),
    }
    infos = [
        str(finding) for finding in (*estimate.robot.findings, *estimate.findings) if finding.severity is Severity.INFO
    ]
    return ProvenanceData(
        _format_command(run.get("command", ())),
        tuple(_flatten_settings(kept)),
        tuple(_list_sources(inputs)),
        tuple(
            (name, str(version_text))
            for name, version_text in (run.get("versions") or package_versions()).items()
            if version_text
        ),
        tuple(dict.fromkeys([*estimate.base.notes, *infos])),
    )


def _format_command(words: Sequence[str]) -> str:
    """Return the command as typed, without the folder of the program."""
    return shlex.join([PurePath(words[0]).name, *words[1:]]) if words else ""


def package_versions() -> dict[str, str | None]:
    """Return the versions of Python and the packages that affect a result; None if not installed."""
    return {"python": platform.python_version(), **{name: _find_version(name) for name in REPORTED_PACKAGES}}


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _list_sources(inputs: ReportInputs) -> list[tuple[str, str]]:
    """Return path and SHA-256 of every file once."""
    hashes = {str(entry["path"]): str(entry["sha256"]) for entry in inputs.run.get("inputs", ())}
    of_logs = (source for log in (*inputs.training_logs, *inputs.validation_logs) for source in log.sources)
    hashes |= {source.path: source.sha256 for source in (*inputs.estimate.sources, *of_logs)}
    return list(hashes.items())


def _flatten_settings(values: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return nested settings as pairs of a dotted name and a text."""
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            pairs += _flatten_settings(value, f"{name}.")
        else:
            pairs.append((name, _format_setting(value)))
    return pairs


def _format_setting(value: Any) -> str:
    if value is None or value == [] or value == ():
        return "none"
    if isinstance(value, float):
        return typeset(f"{value:.6g}")
    if isinstance(value, int) and not isinstance(value, bool):
        return format_count(value)
    return ", ".join(map(_format_setting, value)) if isinstance(value, (list, tuple)) else str(value)
