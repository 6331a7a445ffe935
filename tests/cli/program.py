"""Run the program in this process and return its exit code, stdout and stderr."""

from __future__ import annotations

import io
import os
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


def mindyn_program(*arguments: object, main: Callable[[], None] = run, columns: int | None = None) -> Ended:
    """Run `mindyn arguments...`; exceptions that the program does not handle are raised.

    columns  of the terminal; None: there is none, as in a pipe
    """
    out, err, code = io.StringIO(), io.StringIO(), 0
    width = {"COLUMNS": "" if columns is None else str(columns)}
    argv = patch.object(sys, "argv", ["mindyn", *map(str, arguments)])
    with patch.dict(os.environ, width), argv, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())
