"""The sidecars of the guide "Record a log" read logs with the columns that they name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import mindyn

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "record-a-log.md"
SECTIONS = [part.partition("\n") for part in PAGE.read_text().split("\n## ")[1:]]
SIDECARS = [(head, text) for head, _, body in SECTIONS for text in re.findall(r"```toml\n(.*?)```", body, re.DOTALL)]


@pytest.mark.parametrize(("vendor", "text"), SIDECARS, ids=[vendor for vendor, _ in SIDECARS])
def test_sidecar_of_a_vendor_reads_its_log(vendor, text, tmp_path):
    robot = mindyn.load_robot("panda" if vendor == "Franka" else "ur10")
    n, sidecar = robot.joint_count, tomllib.loads(text)
    t = np.arange(0, 5, 0.01)
    q = 0.3 * np.sin(t[:, None] * np.linspace(0.7, 1.9, n)) - (1.5 if vendor == "Franka" else 0.0)
    qd = np.gradient(q, t, axis=0)
    degrees = sidecar["units"]["position"] == "deg"
    signals = {"position": np.degrees(q) if degrees else q, "velocity": qd, "torque": np.cos(3 * t[:, None]) + 0 * q}
    columns = {sidecar["columns"]["time"]: t}
    for signal in sidecar["columns"].keys() - {"time"}:
        for k in range(n):
            name = sidecar["columns"][signal].replace("{i0}", str(k)).replace("{i}", str(k + 1))
            columns[name] = signals[signal][:, k]
    pl.DataFrame(columns).write_csv(tmp_path / "run1.csv")
    (tmp_path / "run1.csv.toml").write_text(text)
    log = mindyn.read_log(tmp_path / "run1.csv", robot)
    assert np.allclose(log.q, q)
    assert ("unknown" in text) == bool(log.metadata.current_gains)


def test_the_guide_covers_every_vendor():
    assert [vendor.partition(":")[0] for vendor, _ in SIDECARS] == ["Universal Robots", "Franka", "KUKA"]
    assert "use_currents_as_efforts" in PAGE.read_text()
