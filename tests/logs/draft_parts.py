"""Parts that drafts of sidecars are made of, in small."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mindyn.logs.drafts.draft import SidecarDraft
from mindyn.logs.drafts.draft_columns import LogContents
from mindyn.logs.drafts.draft_head import Clock, LogHead, detect_clock
from mindyn.logs.drafts.draft_names import ColumnGroup, split_words
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Limits

PLANAR = load_robot("planar2")
EMPTY = SidecarDraft("run.csv", ())
T = np.arange(50) / 100


def group(name, count=2, order="numbers", ending=()):
    columns = tuple(f"{name}{k + 1}" for k in range(count))
    return ColumnGroup(
        f"{name}{{i}}", columns if order != "array" else (name,), count, split_words(name), order, ending
    )


def head(**columns):
    return LogHead(columns, {}, {}, ())


def clock_of(columns):
    return detect_clock(LogHead(columns, {}, {}, ()))


def contents(chosen, first_rows, files=(), seconds=None, robot=None):
    clock = Clock() if seconds is None else Clock(("t",), "s", seconds)
    return LogContents(first_rows, chosen, dict(files), clock, robot)


def build_limited_robot(reach):
    joints = tuple(replace(joint, limits=Limits(-reach, reach)) for joint in PLANAR.joints)
    return replace(PLANAR, joints=joints)
