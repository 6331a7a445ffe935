"""Protect files of the user: --out replaces no input of the command, no recording and no file of another kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from mindyn.cli.runs import read_run_record
from mindyn.foundation.atomic_files import locate_beside
from mindyn.foundation.errors import Code, InputError

HTML_ENDINGS: Final = (".html", ".htm")
ROBOT_ENDINGS: Final = {"urdf": (".urdf", ".xml"), "mjcf": (".xml", ".mjcf"), "toml": (".toml",)}
"""Endings of exported robot files by format."""
CONTROLLER_ENDINGS: Final = (".txt",)
SIMULATED: Final = "simulated by mindyn; a later simulation may replace this log"
"""Remark in the sidecar of a simulated log."""
_HINT: Final = "pass another name, or move the file away"


def require_output_file(out: Path, endings: Collection[str], inputs: Iterable[str | Path] = ()) -> None:
    """Raise `InputError` if an output file would replace an input, or a log or robot file.

    endings  endings of files that the command writes; a file with such an ending is replaced
    """
    if not out.is_file():
        return
    if any(Path(path).exists() and out.samefile(path) for path in inputs):
        raise _replacement_error(out, "is an input of this command or of the run")
    if _is_sidecar(out):
        raise _replacement_error(out, "describes a log")
    if out.suffix.lower() in _data_endings() - set(endings):
        raise _replacement_error(out, "is a log or a robot file, and this command writes another format")


def list_run_inputs(run: Path) -> list[str]:
    """Return the files that a run was made of, as its record names them: the robot file, its logs and settings."""
    folder = run if run.is_dir() else run.parent
    inputs = read_run_record(run).get("inputs")
    paths = [entry.get("path") for entry in inputs if isinstance(entry, Mapping)] if isinstance(inputs, list) else []
    return [locate_beside(path, folder) for path in paths if isinstance(path, str)]


def require_simulated_log(out: Path) -> None:
    """Raise `InputError` if a simulated log would replace a log that was not simulated."""
    if out.is_file() and not _is_simulated(out):
        raise _replacement_error(out, "is not a log of `mindyn simulate`, perhaps a recording")


def require_motion_file(out: Path, files: Collection[Path]) -> None:
    """Raise `InputError` if the file of a motion would replace another file.

    files  files that are written together: the motion and its rehearsal
    """
    if out.is_file() and len(files) == 2 and not all(path.is_file() for path in files):
        raise _replacement_error(out, "is not a motion that `mindyn excite` wrote")
    require_output_file(out, (out.suffix.lower(),))


def _replacement_error(out: Path, what: str) -> InputError:
    return InputError(f"--out would replace '{out}', which {what}", hint=_HINT, code=Code.DUPLICATE, subject="--out")


def _is_simulated(log: Path) -> bool:
    sidecar = log.with_name(log.name + ".toml")
    return sidecar.is_file() and sidecar.read_text("utf-8", "replace").startswith(f"# {SIMULATED}\n")


def _is_sidecar(out: Path) -> bool:
    return out.suffix == ".toml" and Path(out.stem).suffix in _log_endings() and out.with_suffix("").exists()


def _log_endings() -> set[str]:
    from mindyn.logs.formats.formats import LOG_FORMATS

    return set(LOG_FORMATS)


def _data_endings() -> set[str]:
    from mindyn.robots.loading import ROBOT_FORMATS

    return _log_endings() | set(ROBOT_FORMATS)
