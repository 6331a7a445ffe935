"""Public names and the keys of `--json` are those of the snapshots, so that a change of them is seen in review.

Write them again with `python tools/snapshot_api.py > tests/contracts/api.txt` and
`MINDYN_WRITE_SNAPSHOTS=1 python -m pytest tests/contracts/test_stability.py`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cli.program import mindyn_program
from logs.every_format import planar_motion, write_recording
from snapshot_api import describe_api

FOLDER = Path(__file__).parent
KEYED_BY_NAME = ("findings", "settings", "joints", "laws")
"""Entries whose content depends on the case."""


def test_public_names_are_those_of_the_snapshot():
    assert list(describe_api()) == (FOLDER / "api.txt").read_text().splitlines()


def keys_of(value, where=""):
    """Return the paths of all keys, with the type of each value; a list by its first entry."""
    if isinstance(value, dict):
        named = [key for key in value if not key.isidentifier()]
        items = [(key, value[key]) for key in value if key not in named]
        items += [("*", value[named[0]])] if named else []
        for key, item in items:
            yield from keys_of(item, f"{where}.{key}") if not where.endswith(KEYED_BY_NAME) else ()
    elif isinstance(value, list) and value:
        yield from keys_of(value[0], f"{where}[]")
    else:
        kind = "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__
        yield f"{where} {kind}"


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    free, loaded = planar_motion(1408), planar_motion(700, seed=2, payload=3.0)
    log, other = (write_recording(folder, "csv", motion, name) for motion, name in ((free, "a"), (loaded, "b")))
    run = folder / "run"
    assert mindyn_program("identify", "planar2", log, "--out", run, "--no-report").code == 0
    return {
        "robots": ("robots",),
        "robots NAME": ("robots", "planar2"),
        "robots --identified": ("robots", "--identified"),
        "base": ("base", "planar2"),
        "count": ("count", "planar2"),
        "identify": ("identify", "planar2", log, "--validate", other),
        "check": ("check", run),
        "payload": ("payload", run, other),
        "contact": ("contact", run, other, "--free", log),
        "doctor": ("doctor",),
    }


def test_keys_of_json_are_those_of_the_snapshot(commands):
    keys = {}
    for name, words in commands.items():
        ended = mindyn_program(*words, "--json")
        assert ended.out.strip(), ended.err
        keys[name] = sorted(set(keys_of(json.loads(ended.out))))
    path = FOLDER / "json_keys.json"
    if os.environ.get("MINDYN_WRITE_SNAPSHOTS"):
        path.write_text(json.dumps(keys, indent=1) + "\n")
    assert keys == json.loads(path.read_text())
