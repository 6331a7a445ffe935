"""The program in this process: its exit code, stdout and stderr."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

from mindyn.cli.main import run


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def mindyn_program(*arguments: object, main: Callable[[], None] = run) -> Ended:
    """What `mindyn arguments...` does; an exception that the program lets through comes through here too."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with patch.object(sys, "argv", ["mindyn", *map(str, arguments)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())
