"""`leaderboard/set_template.toml`, filled in as its comments say, is a set that can be scored."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import polars as pl

import mindyn
from leaderboard import sets
from leaderboard.sets import prepare, read_manifests
from mindyn.applications.comparison.log_sets import read_sets

TEMPLATE = Path(sets.__file__).with_name("set_template.toml")


def test_a_filled_template_gives_training_and_held_out_logs(tmp_path, monkeypatch):
    robot = mindyn.load_robot("puma560")
    local = tmp_path / "local" / "mine"
    (local / "model").mkdir(parents=True)
    mindyn.write_toml(robot, local / "model" / "robot.toml")
    phases = np.linspace(0, 100, 10_000)[:, None] * np.linspace(0.5, 1.5, 12) + np.arange(12)
    rows = np.column_stack([0.5 * np.sin(phases[:, :6]), 10 * np.cos(phases[:, 6:])]).round(6)
    names = [f"{signal}_{joint}" for signal in ("q", "tau") for joint in robot.joint_names]
    pl.DataFrame(dict(zip(names, rows.T, strict=True))).write_csv(local / "run1.csv")
    text = TEMPLATE.read_text().replace("robot.urdf", "robot.toml")
    text = text.replace('["joint1", "joint2", "joint3", "joint4", "joint5", "joint6"]', str(list(robot.joint_names)))
    for file in ("run1.csv", "model/robot.toml"):
        text = text.replace(64 * "0", hashlib.sha256((local / file).read_bytes()).hexdigest(), 1)
    root = tmp_path / "leaderboard"
    (root / "sets").mkdir(parents=True)
    (root / "sets" / "mine.toml").write_text(text)
    monkeypatch.setattr(sets, "ROOT", root)
    assert [*read_manifests()] == ["mine"]
    (tmp_path / "made").mkdir()
    folder = prepare(tmp_path / "made", ("mine",), tmp_path / "local")
    (split,) = read_sets(folder, ["mine"])
    (training,), (held_out,) = split.training, split.held_out
    assert (len(training), held_out.rows) == (7000, (7013, 9987))
    assert np.array_equal(training.tau, rows[:7000, 6:])
