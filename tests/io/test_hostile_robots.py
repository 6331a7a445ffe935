"""Hostile robot files and records are rejected by our own error, or read; `make attacks` limits time and memory."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest

from mindyn.foundation.errors import MindynError

sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))
from cases import READERS

CASES = [(kind, name) for kind in ("robot", "estimate", "plan") for name in READERS[kind][0]]
SLOW = ("urdf_of_four_million_links", "urdf_of_four_million_attributes", "estimate_of_lists", "estimate_of_keys")


@pytest.mark.parametrize(
    ("kind", "name"), [pytest.param(*case, marks=pytest.mark.slow) if case[1] in SLOW else case for case in CASES]
)
def test_a_hostile_file_is_read_or_rejected(tmp_path, kind, name):
    if name.startswith("mjcf"):
        pytest.importorskip("mujoco")
    attacks, read = READERS[kind]
    path, start = attacks[name](tmp_path), process_time()
    with suppress(MindynError):
        read(path)
    assert process_time() - start < 20
