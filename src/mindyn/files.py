"""Writing whole files or none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from mindyn.errors import ExportError


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file under a temporary name beside `path`, then move it there."""
    target = Path(path)
    if not target.parent.is_dir():
        raise ExportError(f"there is no folder {str(target.parent)!r} to write {target.name} into")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(target)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise ExportError(f"{str(target)!r} cannot be written: {error.strerror}") from error
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
