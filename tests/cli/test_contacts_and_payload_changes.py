"""Output of `mindyn contact` and `mindyn payload` at a terminal of 80 columns."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from cli.program import mindyn_program

import mindyn
from mindyn.robots.floating_base import rotations_from_quaternions

COLUMNS = 80
MASS = 3.0
SENSORS = ("--torque-noise", 0.5, "--noise-at", "joint", "--rate-hz", 100, "--seconds", 12)


def done(*words: object) -> tuple[str, str]:
    ended = mindyn_program(*words, columns=COLUMNS)
    assert ended.code == 0, ended.err
    lines = [*ended.out.splitlines(), *ended.err.splitlines()]
    assert [line for line in lines if len(line) > COLUMNS and not line.startswith(CODE)] == []
    return " ".join(ended.out.split()), ended.err


CODE = ("UR ", "Franka ", "KUKA ", "ABB ", "URDF ", "MJCF ", "C  ", "In frame ")
"""Lines to copy, which are not wrapped."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return an estimate of a two-joint arm, and logs: free, with a push after 1 s, and with a payload."""
    folder = tmp_path_factory.mktemp("arm")
    arm = mindyn.load_robot("planar2")
    mindyn.write_toml(arm.with_payload(mass=MASS, com=(0.1, 0, 0), inertia=[[0.01, 0, 0], [0, 0.01, 0], [0, 0, 0.01]]),
                      folder / "loaded.toml")  # fmt: skip
    (folder / "fixed.toml").write_text("motion_hz = 10.0\ndelay_s = 0.0\n")
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
    text, _ = done("contact", folder / "run1", folder / "pushed.csv", "--free", folder / "free.csv")
    assert text.startswith("1 contact (expected false alarms: 1 per hour)")
    assert "joint2" in text
    assert "thresholds from" in text
    assert "N m" in text
    assert "or N" not in text
    text, _ = done("contact", folder / "run1", folder / "free.csv", "--free", folder / "free.csv")
    assert text.startswith("No contact")


def test_payload_writes_the_file_of_a_controller(folder):
    words = ("payload", folder / "run1", folder / "loaded.csv")
    printed = mindyn_program(*words, "--to", "ur")
    assert printed.code == 0
    assert "set_target_payload(" in printed.out
    assert "Payload mass" not in printed.out, "the text can be redirected into a file"
    _, talk = done(*words, "--to", "ur", "--out", folder / "tool.script")
    assert "wrote" in talk
    assert (folder / "tool.script").read_text() == printed.out
    assert json.loads(mindyn_program(*words, "--to", "json").out)["mass"] == pytest.approx(MASS, rel=0.1)
    for wrong in (("--to", "fanuc"), ("--out", "x"), ("--name", "x"), ("--to", "kuka", "--name", "17")):
        assert mindyn_program(*words, *wrong).code == 1
    assert mindyn_program(*words, "--to", "ur", "--json").code == 1


def test_export_writes_samples(folder):
    words = ("export", folder / "run1", "--feasible", "--to", "mjcf", "--samples", 3)
    ended = mindyn_program(*words, "--out", folder / "samples")
    assert ended.code == 0, ended.err
    names = ["model_000.xml", "model_001.xml", "model_002.xml", "ranges.csv", "ranges.yaml"]
    assert sorted(path.name for path in (folder / "samples").iterdir()) == names
    assert mindyn_program(*words, "--out", folder / "samples").code == 1, "the folder is not empty"
    for wrong in (("--samples", 0), ("--seed", 1), ("--samples", 2, "--to", "toml"), ("--samples", 2, "--check", "x")):
        ended = mindyn_program("export", folder / "run1", "--to", "mjcf", *wrong, "--out", folder / "none")
        assert ended.code == 1
    assert not (folder / "none").exists()


def test_payload_prints_mass_and_centre_first(folder):
    text, _ = done("payload", folder / "run1", folder / "loaded.csv")
    assert text.startswith("Payload mass ")
    assert "UR set_target_payload(" in text
    assert "not identifiable" in text, "a planar arm does not determine parameters out of its plane"
    as_json = mindyn_program("payload", folder / "run1", folder / "loaded.csv", "--json")
    low, high = json.loads(as_json.out)["mass_interval"]
    assert low < MASS < high
    assert "standard deviation of 1 % of the torque scale." in text
    ended = mindyn_program("payload", folder / "run1", folder / "run1.csv", columns=COLUMNS)
    assert ended.code == 1
    assert "a training log: its payload is part of the estimate" in " ".join(ended.err.split())


def test_contact_prints_the_wrench_and_unobserved_directions(folder):
    words = ("contact", folder / "run1", folder / "pushed.csv", "--free", folder / "free.csv", "--wrench")
    text, _ = done(*words)
    assert "wrench on link2 in its axes at" in text
    assert "does not observe" in text, "two joints observe two of six directions"
    result = json.loads(mindyn_program(*words, "--link", "link2", "--json").out)["wrenches"][0]
    assert len(result["unobservable_directions"]) == 4
    point = json.loads(mindyn_program(*words, "--point", "--json").out)["wrenches"][0]
    assert point["wrench"][:3] == [0.0, 0.0, 0.0]
    ended = mindyn_program(*words[:-1], "--point")
    assert ended.code == 1
    assert "--wrench" in ended.err


def test_payload_of_a_wrist_sensor_prints_mass_bias_and_held_out_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    s = rng.normal(size=(15, 4))
    R = rotations_from_quaternions(s)
    weight = MASS * np.einsum("nji,j->ni", R, [0, 0, -9.81])
    readings = np.hstack([weight, np.cross([0.02, 0, 0.1], weight)]) + np.array([1, 2, 3, 0.1, 0.2, 0.3])
    columns = np.hstack([readings + rng.normal(0, 0.01, readings.shape), s])
    names = ("fx", "fy", "fz", "tx", "ty", "tz", "qx", "qy", "qz", "qw")
    pl.DataFrame(dict(zip(names, columns.T, strict=True))).write_csv(tmp_path / "ft.csv")
    text, talk = done("payload", "--wrench", "ft.csv", "--c", "tool.h")
    assert text.startswith("Payload mass ")
    assert "force z 3" in text
    assert "Held-out error: " in text
    assert "UR set_target_payload(" in text
    assert (tmp_path / "tool.h").is_file()
    assert "tool.h" in talk
    content = json.loads(mindyn_program("payload", "--wrench", tmp_path / "ft.csv", "--json").out)
    assert content["mass_interval"][0] < MASS < content["mass_interval"][1]
    words = ("payload", "--wrench", tmp_path / "ft.csv", "--wrench-frame", "world")
    wrong = mindyn_program(*words, "--c", tmp_path / "wrong.h", columns=COLUMNS)
    assert "fit the sensor frame" in " ".join(wrong.err.split())
    assert (wrong.code, wrong.out, (tmp_path / "wrong.h").exists()) == (3, "", False)
    listed = mindyn_program(*words, "--json")
    assert (listed.code, json.loads(listed.out)["findings"][-1]["severity"]) == (3, "error")
    for words in (("payload",), ("payload", "run"), ("payload", "run", "log", "--c", "a.h")):
        assert mindyn_program(*words).code == 1


def test_a_weighed_payload_is_kept_with_the_run(folder):
    text, talk = done("payload", folder / "run1", folder / "loaded.csv", "--calibrate", 1.05 * MASS)
    calibration = folder / "run1" / "calibration.json"
    assert "calibration.json" in talk
    assert f"Payload mass {1.05 * MASS:.4g} kg" in text
    assert json.loads(calibration.read_text())["factor"] == pytest.approx(1.05, rel=0.05)
    text, _ = done("payload", folder / "run1", folder / "loaded.csv")
    assert f"Payload mass {1.05 * MASS:.4g} kg" in text
    assert "calibrated with a weighed payload" in text
    calibration.write_text('{"factor": -1, "deviation": 0.01}')
    ended = mindyn_program("payload", folder / "run1", folder / "loaded.csv")
    assert ended.code == 1
    assert "calibration.json" in ended.err
    calibration.unlink()
    ended = mindyn_program("payload", folder / "run1", folder / "loaded.csv", "--calibrate", 0)
    assert ended.code == 1
    assert not calibration.exists()
