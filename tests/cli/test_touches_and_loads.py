"""Output of `mindyn contact` and `mindyn payload` at a terminal of 80 columns."""

from __future__ import annotations

import json

import polars as pl
import pytest
from cli.program import mindyn_program

import mindyn

COLUMNS = 80
MASS = 3.0
SENSORS = ("--torque-noise", 0.5, "--noise-at", "joint", "--rate-hz", 100, "--seconds", 12)


def done(*words: object) -> tuple[str, str]:
    ended = mindyn_program(*words, columns=COLUMNS)
    assert ended.code == 0, ended.err
    lines = [*ended.out.splitlines(), *ended.err.splitlines()]
    assert [line for line in lines if len(line) > COLUMNS and not line.startswith(CODE)] == []
    return " ".join(ended.out.split()), ended.err


CODE = ("UR ", "Franka ", "KUKA ", "URDF ", "MJCF ", "C  ", "In frame ")
"""Lines to copy, which are not wrapped."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return an estimate of a two-joint arm, and logs: free, with a push after 1 s, and with a payload."""
    folder = tmp_path_factory.mktemp("arm")
    arm = mindyn.load_robot("planar2")
    mindyn.write_toml(arm.with_payload(mass=MASS, com=(0.1, 0, 0), inertia=[[0.01, 0, 0], [0, 0.01, 0], [0, 0, 0.01]]),
                      folder / "loaded.toml")  # fmt: skip
    (folder / "fixed.toml").write_text("position_cutoff_hz = 10.0\ndelay_s = 0.0\n")
    for name, robot, seed in (("run1", "planar2", 1), ("free", "planar2", 2), ("loaded", folder / "loaded.toml", 3)):
        done("simulate", robot, *SENSORS, "--seed", seed, "--out", folder / f"{name}.csv")
    fixed = ("--conditioning", folder / "fixed.toml", "--method", "ordinary", "--no-report")
    mindyn_program("identify", "planar2", folder / "run1.csv", *fixed, "--out", folder / "run1")
    table = pl.read_csv(folder / "free.csv")
    torque = [name for name in table.columns if "torque" in name][-1]
    push = pl.when(pl.int_range(pl.len()).is_between(200, 260)).then(60.0).otherwise(0.0)
    table.with_columns(pl.col(torque) + push).write_csv(folder / "pushed.csv")
    (folder / "pushed.csv.toml").write_text((folder / "free.csv.toml").read_text())
    return folder


def test_contact_prints_contacts_first(folder):
    text, talk = done("contact", folder / "run1", folder / "pushed.csv", "--free", folder / "free.csv",
                      "--save", folder / "bounds.json")  # fmt: skip
    assert text.startswith("1 contact (expected false alarms: 1 per hour)")
    assert "joint2" in text
    assert "thresholds from" in text
    assert "bounds.json: reuse it with --thresholds" in " ".join(talk.split())
    with_saved = ("--thresholds", folder / "bounds.json")
    text, _ = done("contact", folder / "run1", folder / "free.csv", *with_saved)
    assert text.startswith("No contact")


def test_payload_prints_mass_and_centre_first(folder):
    text, _ = done("payload", folder / "run1", folder / "loaded.csv")
    assert text.startswith("Payload mass ")
    assert "UR set_target_payload(" in text
    assert "not identifiable" in text, "a planar arm does not determine parameters out of its plane"
    as_json = mindyn_program("payload", folder / "run1", folder / "loaded.csv", "--json")
    low, high = json.loads(as_json.out)["mass_interval"]
    assert low < MASS < high
    ended = mindyn_program("payload", folder / "run1", folder / "run1.csv", columns=COLUMNS)
    assert ended.code == 1
    assert "a training log: its payload is part of the estimate" in " ".join(ended.err.split())
