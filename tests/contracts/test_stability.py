"""Public names and the keys of `--json` are those of the snapshots, so that a change of them is seen in review.

Write them again with `python tools/snapshot_api.py > tests/contracts/api.txt` and
`MINDYN_WRITE_SNAPSHOTS=1 python -m pytest tests/contracts/test_stability.py`.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli.program import mindyn_program
from logs.every_format import planar_motion, write_recording
from snapshot_api import describe_api

from mindyn import load_robot
from mindyn.cli.main import COMMANDS
from mindyn.motions.excitation.limits import with_limits
from mindyn.output.export.toml_writer import write_toml

FOLDER = Path(__file__).parent
KEYED_BY_NAME = ("findings", "settings", "joints", "laws")
"""Entries whose content depends on the case."""


def test_public_names_are_those_of_the_snapshot():
    assert list(describe_api()) == (FOLDER / "api.txt").read_text().splitlines()


def keys_of(value, where=""):
    """Return the paths of all keys, with the type of each value; a list by its first entry that is not None.

    Lists of which some entries may be None hold numbers.
    """
    if isinstance(value, dict):
        named = [key for key in value if not key.isidentifier()]
        items = [(key, value[key]) for key in value if key not in named]
        items += [("*", value[named[0]])] if named else []
        for key, item in items:
            yield from keys_of(item, f"{where}.{key}") if not where.endswith(KEYED_BY_NAME) else ()
    elif isinstance(value, list) and value:
        yield from keys_of(next((item for item in value if item is not None), 0.0), f"{where}[]")
    else:
        kind = "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__
        yield f"{where} {kind}"


def write_set(folder, recording):
    """Write a recording as the set of a `splits.json`."""
    robot, unit = load_robot("planar2"), [[1.0, 0.0], [0.0, 1.0]]
    (folder / "set").mkdir()
    write_toml(robot, folder / "set" / "arm.toml")
    np.savez(folder / "set" / "run.npz", **recording.signals)
    rows = {
        "train": [{"file": "run.npz", "rows": [0, 900]}],
        "held_out": [{"file": "run.npz", "rows": [900, 1408], "score_rows": [920, 1390]}],
    }
    signals = {
        "position": {"array": "position", "scale": 1.0, "to_joint": unit},
        "velocity": None,
        "torque": {"array": "torque", "to_joint": unit},
    }
    entry = {"model": "arm.toml", "joints": list(robot.joint_names), "rate_hz": 128.0, "splits": {"main": rows}}
    (folder / "splits.json").write_text(json.dumps({"sets": {"set": entry | signals}}))


def with_motor_positions(recording):
    """Return a recording with motors ahead of their links by a small angle that follows the torque."""
    signals = recording.signals
    return replace(recording, signals={**signals, "motor_position": signals["position"] + 1e-6 * signals["torque"]})


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """Return the words of every command that takes --json, in an order in which each finds what it reads."""
    folder = tmp_path_factory.mktemp("json")
    free, loaded = planar_motion(1408), planar_motion(700, seed=2, payload=3.0)
    log, other = (write_recording(folder, "csv", motion, name) for motion, name in ((free, "a"), (loaded, "b")))
    write_set(folder, free)
    run, limits, plan = folder / "run", folder / "limits.toml", folder / "plan"
    limits.write_text("lower = -2.0\nupper = 2.0\nvelocity = 2.0\neffort = 4000.0\n")
    assert mindyn_program("identify", "planar2", log, "--out", run, "--no-report").code == 0
    two = write_recording(folder, "csv", with_motor_positions(free), "two_encoders")
    short = ("--seconds", 6, "--starts", 1, "--deadline-s", 0.5, "--limits", limits)
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
        "elasticity": ("elasticity", run, two),
        "doctor": ("doctor",),
        "compare": ("compare", "--logs", folder, "--method", "weighted"),
        "compare ROBOT": ("compare", "planar2", "--repetitions", 1, "--seconds", 2, "--method", "least squares"),
        "demo": ("demo", "--out", folder / "demo"),
        "excite": ("excite", "planar2", *short, "--out", folder / "motion"),
        "export": ("export", run, "--to", "urdf", "--out", folder / "arm.urdf"),
        "fleet": ("fleet", "planar2", folder / "{robot_id}.csv", "--out", folder / "study", "--settings", run),
        "log": ("log", log, "planar2"),
        "papers": ("papers",),
        "report": ("report", run, "--validate", other, "--out", folder / "report.html"),
        "simulate": ("simulate", "planar2", "--seconds", 0.5, "--out", folder / "simulated.csv"),
        "view": ("view", "planar2", run, "--no-open", "--out", folder / "view.html"),
        "step-by-step plan": ("step-by-step", "plan", "planar2", plan, "--limits", limits, "--no-floor"),
        "step-by-step simulate": ("step-by-step", "simulate", "planar2", plan),
        "step-by-step identify": ("step-by-step", "identify", "planar2", plan),
        "any, with an error": ("identify", "planar2", folder / "missing.csv"),
    }


def demonstrate_planar_arm(monkeypatch):
    """Let the demonstration run with two joints: the keys of its JSON are the same."""
    arm = with_limits(load_robot("planar2"), {"lower": -2.0, "upper": 2.0, "velocity": 2.0, "effort": 4000.0})
    monkeypatch.setattr("mindyn.cli.demo_command.load_demonstrated_arm", lambda: arm)


def test_keys_of_json_are_those_of_the_snapshot(commands, monkeypatch):
    demonstrate_planar_arm(monkeypatch)
    keys = {}
    for name, words in commands.items():
        ended = mindyn_program(*words, "--json")
        assert ended.out.strip(), ended.err
        keys[name] = sorted(set(keys_of(json.loads(ended.out))))
    path = FOLDER / "json_keys.json"
    if os.environ.get("MINDYN_WRITE_SNAPSHOTS"):
        path.write_text(json.dumps(keys, indent=1) + "\n")
    assert keys == json.loads(path.read_text())


def test_the_snapshot_has_every_command():
    known = {name.split()[0] for name in json.loads((FOLDER / "json_keys.json").read_text())}
    assert {*COMMANDS} - {"start"} <= known  # start is a dialogue
