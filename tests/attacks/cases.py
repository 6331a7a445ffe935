"""All attacks: what prepares a file, and what is then done with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hostile_robots import ESTIMATES, PLANS, ROBOTS
from hostile_structures import LOGS

SLOWNESS = float(os.environ.get("SLOWNESS", "1"))
"""Factor by which the wall time of an attack may grow on a busy machine; processor time has no factor."""


class Lost(Exception):
    """Something that was there before is gone."""


class Case(NamedTuple):
    prepare: Callable[[Path], Path]
    run: Callable[[Path], None]


def read_log(path: Path) -> None:
    import mindyn

    mindyn.read_log(path, mindyn.load_robot("planar2"))


def load_robot(path: Path) -> None:
    import mindyn

    mindyn.load_robot(path)


def load_estimate(path: Path) -> None:
    import mindyn

    mindyn.load_estimate(path)


def load_plan(path: Path) -> None:
    from mindyn.motions.step_plans.plan import load_plan

    load_plan(path)


READERS = {
    "log": (LOGS, read_log),
    "robot": (ROBOTS, load_robot),
    "estimate": (ESTIMATES, load_estimate),
    "plan": (PLANS, load_plan),
}


def all_cases() -> Iterator[tuple[str, Case]]:
    for kind, (attacks, run) in READERS.items():
        for name, make in attacks.items():
            yield f"{kind}: {name}", Case(make, run)
