"""All attacks: what prepares a file, and what is then done with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hostile_logs import LOGS

SLOWNESS = float(os.environ.get("SLOWNESS", "1"))
"""By which a busy machine stretches the time that an attack may take on the clock; processor time stays as it is."""


class Lost(Exception):
    """Something that was there before is gone."""


class Case(NamedTuple):
    prepare: Callable[[Path], Path]
    run: Callable[[Path], None]


def read_log(path: Path) -> None:
    import mindyn

    mindyn.read_log(path, mindyn.load_robot("planar2"))


def all_cases() -> Iterator[tuple[str, Case]]:
    for name, make in LOGS.items():
        yield f"log: {name}", Case(make, read_log)
