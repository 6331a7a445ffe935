"""How a result was made: command, settings, files with their hashes, versions."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any, Final

from mindyn.report.data import MadeData
from mindyn.report.inputs import ReportInputs
from mindyn.report.markup import typeset

PACKAGES: Final = ("mindyn", "numpy", "scipy", "casadi", "llvmlite", "polars")
SHOWN_ELSEWHERE: Final = ("sources", "notes", "condition_number", "joint_weights")
RECORDS: Final = ("physical", "unconstrained", "tried")
"""Of the provenance: no settings but what came of them; they are in the estimate's file."""


def made_data(inputs: ReportInputs) -> MadeData:
    """From the estimate's provenance and, where it is given, the record of the run."""
    provenance, run = inputs.estimate.provenance, inputs.run
    kept = {key: value for key, value in provenance.items() if key not in (*SHOWN_ELSEWHERE, *RECORDS)}
    kept = {"samples" if key == "rows" else key: value for key, value in kept.items()}
    return MadeData(
        _command(run.get("command", ())),
        tuple(_flat(kept)),
        tuple(_sources(inputs)),
        tuple((name, str(found)) for name, found in (run.get("versions") or package_versions()).items() if found),
        tuple(map(str, provenance.get("notes", ()))),
    )


def _command(words: Sequence[str]) -> str:
    """As typed, whatever folder the program lies in."""
    return shlex.join([PurePath(words[0]).name, *words[1:]]) if words else ""


def package_versions() -> dict[str, str | None]:
    """Python and the packages that take part in a result; None where one is not installed as a package."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _sources(inputs: ReportInputs) -> list[tuple[str, str]]:
    """Path and SHA-256 of every file once."""
    listed = [*inputs.run.get("inputs", ()), *inputs.estimate.provenance.get("sources", ())]
    found = {str(one["path"]): str(one["sha256"]) for one in listed}
    for log in (*inputs.training_logs, *inputs.validation_logs):
        found |= {source.path: source.sha256 for source in log.sources}
    return list(found.items())


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as pairs of a dotted name and a text."""
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{name}.")
        else:
            pairs.append((name, _text(value)))
    return pairs


def _text(value: Any) -> str:
    if value is None or value == [] or value == ():
        return "none"
    if isinstance(value, float):
        return typeset(f"{value:.6g}")
    return ", ".join(map(_text, value)) if isinstance(value, (list, tuple)) else str(value)
