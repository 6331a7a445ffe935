"""A run names its logs relative to itself: it can be moved with them, and used from any folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

import mindyn
from mindyn.foundation.atomic_files import locate_beside, relative_path
from mindyn.logs.log import SourceFile


def test_paths_are_relative_to_the_run_and_found_next_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/logs", "a/runs/run1", "b"):
        Path(name).mkdir(parents=True)
    Path("a/logs/run.csv").write_text("1")
    assert relative_path("a/logs/run.csv", Path("a/runs/run1")) == "../../logs/run.csv"
    assert relative_path("s3://bucket/run.parquet", Path("a")) == "s3://bucket/run.parquet"
    assert Path(locate_beside("../../logs/run.csv", Path("a/runs/run1"))) == Path("a/logs/run.csv")
    shutil.move("a", "moved")
    assert Path(locate_beside("../../logs/run.csv", Path("moved/runs/run1"))).read_text() == "1"
    shutil.copy("moved/logs/run.csv", "moved/runs")  # beside the run
    shutil.rmtree("moved/logs")
    assert Path(locate_beside("../../logs/run.csv", Path("moved/runs/run1"))) == Path("moved/runs/run.csv")
    assert locate_beside("s3://bucket/run.parquet", Path("b")) == "s3://bucket/run.parquet"
    assert Path(locate_beside("../gone.csv", Path("moved/runs"))) == Path("moved/gone.csv")


def test_an_estimate_finds_its_logs_from_another_folder(tmp_path, monkeypatch):

    arm = mindyn.load_robot("planar2")
    t = np.arange(400) / 100
    q = np.column_stack([np.sin(3 * t), np.cos(2 * t)])
    qd, qdd = np.gradient(q, t, axis=0), np.gradient(np.gradient(q, t, axis=0), t, axis=0)
    tau = mindyn.compile_model(arm).inverse_dynamics(q, qd, qdd)
    samples = mindyn.Samples(arm.joint_names, q, qd, qdd, tau, 100.0, np.zeros(len(t), np.int64))
    estimate = mindyn.LeastSquares().fit(mindyn.build_rows(arm, samples))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "run.csv").write_text("1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run1").mkdir()
    estimate.with_data(sources=(SourceFile("logs/run.csv", "0" * 64),)).save("run1/estimate.json")
    assert json.loads(Path("run1/estimate.json").read_text())["data"]["sources"][0]["path"] == "../logs/run.csv"
    monkeypatch.chdir("/")
    (source,) = mindyn.load_estimate(tmp_path / "run1").data.sources
    assert Path(source.path) == tmp_path / "logs" / "run.csv"
