"""`mindyn compare --logs`: sets of a folder made here, read as their splits.json says, scored by the rules."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program
from closeness import SAME_ALGEBRA, assert_close
from estimators.recovered import smooth_samples

import mindyn
from mindyn.comparison.log_comparison import compare_on_logs
from mindyn.comparison.log_sets import read_sets
from mindyn.comparison.methods import LOG_METHODS, select_methods
from mindyn.errors import InputError
from mindyn.export.toml_writer import write_toml

GEARS = np.array([[50.0, 0.0], [8.0, -40.0]])
OFFSET = [0.5, -0.25]
MEAN = """
import numpy

name = "mean torque"


def fit(robot, logs):
    mean = numpy.concatenate([log.tau for log in logs]).mean(axis=0)
    return lambda log: numpy.broadcast_to(mean, log.tau.shape)
"""
CHEAT = """
name = "cheat"


def fit(robot, logs):
    return lambda log: log.tau
"""


@pytest.fixture(scope="module")
def motion():
    return smooth_samples(mindyn.load_robot("planar2"), count=3000)


@pytest.fixture
def folder(tmp_path, motion):
    """Two sets of one motion: as joint-side arrays of an .npz, and as motor-side degrees in two tables."""
    robot = mindyn.load_robot("planar2")
    for name in ("arrays", "tables"):
        (tmp_path / name / "model").mkdir(parents=True)
        write_toml(robot, tmp_path / name / "model" / "arm.toml")
    np.savez(tmp_path / "arrays" / "run.npz", q=motion.q, tau=motion.tau)
    motors = np.rad2deg((motion.q - OFFSET) @ GEARS.T)
    torque = np.linalg.solve(GEARS.T, motion.tau.T).T
    for file, values in (("q.csv", motors), ("tau.csv", torque)):
        np.savetxt(tmp_path / "tables" / file, values, delimiter=",", header="a,b", comments="")
    one = np.eye(2).tolist()
    common = {"rate_hz": motion.rate_hz, "model": "model/arm.toml (as it is)", "joints": list(robot.joint_names)}
    rows = [{"rows": [0, 2000]}], [{"rows": [2000, 3000], "score_rows": [2020, 2980]}]
    arrays = {
        "position": {"array": "q", "scale": 1.0, "to_joint": one, "offset": [0.0, 0.0]},
        "velocity": None,
        "torque": {"array": "tau", "to_joint": one},
        "splits": {"main": _split(rows, "run.npz"), "other": _split(rows, "run.npz")},
    }
    tables = {
        "position": {
            "columns": ["a", "b"],
            "scale": float(np.pi / 180),
            "to_joint": np.linalg.inv(GEARS).tolist(),
            "offset": OFFSET,
        },
        "velocity": None,
        "torque": {"columns": ["a", "b"], "to_joint": GEARS.T.tolist()},
        "splits": {"main": _split(rows, {"position": "q.csv", "torque": "tau.csv"})},
    }
    sets = {"arrays": {**common, **arrays}, "tables": {**common, **tables}}
    (tmp_path / "splits.json").write_text(json.dumps({"sets": sets}))
    return tmp_path


def _split(rows, file):
    train, held_out = ([{**one, "file": file} for one in part] for part in rows)
    return {"train": train, "held_out": held_out}


def changed(folder, change):
    path = folder / "splits.json"
    content = json.loads(path.read_text())
    change(content["sets"]["tables"])
    path.write_text(json.dumps(content))


def test_sets_are_read_as_they_are_stated(folder, motion):
    splits = read_sets(folder)
    assert [split.name for split in splits] == ["arrays, main", "arrays, other", "tables"]
    for split in splits:
        (log,) = split.training
        assert_close(log.q, motion.q[:2000], SAME_ALGEBRA)
        assert_close(log.tau, motion.tau[:2000], SAME_ALGEBRA)
        (held_out,) = split.held_out
        assert (len(held_out.log), held_out.rows) == (3000, (2020, 2980))


def test_a_score_is_the_measure_on_the_scored_rows(folder, motion):
    (folder / "mean.py").write_text(MEAN)
    found = compare_on_logs(read_sets(folder), select_methods([str(folder / "mean.py")]))
    mean = motion.tau[:2000].mean(axis=0)
    scored = motion.tau[2020:2980]
    expected = np.linalg.norm(scored - mean) / np.linalg.norm(scored)
    for split in found.splits:
        assert_close(found.scores["mean torque"][split].total, expected, SAME_ALGEBRA)


def test_no_method_sees_the_torque_it_is_asked_for(folder):
    (folder / "cheat.py").write_text(CHEAT)
    found = compare_on_logs(read_sets(folder), select_methods([str(folder / "cheat.py")]))
    assert all(one.total == 1.0 for one in found.scores["cheat"].values())  # it was given zeros


def test_our_fit_and_pinocchio_explain_an_arm_without_noise(folder):
    pytest.importorskip("pinocchio")
    found = compare_on_logs(read_sets(folder, ["arrays"]), {k: LOG_METHODS[k] for k in ("weighted", "pinocchio")})
    assert all(one.total < 0.01 for scores in found.scores.values() for one in scores.values()), found.table()


def test_two_recordings_are_compared_by_their_intervals(folder):
    (split, *_) = read_sets(folder)
    halves = tuple(split.training[0].between(a, b) for a, b in ((0, 1000), (1000, 2000)))
    found = compare_on_logs([replace(split, training=halves)], {})
    one = found.agreements[split.name]
    assert 0 < one.within <= one.compared
    assert compare_on_logs([split], {}).agreements == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda entry: entry.pop("splits"), "KeyError"),
        (lambda entry: entry["position"].update(scale=2.0), "scale 2.0"),
        (lambda entry: entry["position"].update(to_joint=[[2, 0], [0, 2]]), "to_joint of position"),
        (lambda entry: entry.update(model="model/none.toml"), "none.toml"),
    ],
)
def test_what_cannot_be_understood_is_named(folder, change, said):
    changed(folder, change)
    with pytest.raises(mindyn.MindynError, match=said):
        read_sets(folder)


def test_methods_are_named_or_refused(tmp_path):
    (tmp_path / "empty.py").write_text("x = 1")
    (tmp_path / "broken.py").write_text("1 / 0")
    for name, said in (
        ("least", "no method 'least'"),
        ("no.py", "no file"),
        ("empty.py", "has no method"),
        ("broken.py", "division"),
    ):
        with pytest.raises(InputError, match=said):
            select_methods([str(tmp_path / name) if name.endswith(".py") else name])


def test_the_command_writes_one_page(folder):
    (folder / "mean.py").write_text(MEAN.replace("mean torque", "mean <torque>"))
    out = folder / "page.html"
    ended = mindyn_program("compare", "--logs", folder, "--method", folder / "mean.py", "--out", out)
    assert ended.code == 0, ended.err
    assert "mean <torque>" in ended.out
    page = out.read_text()
    assert "mean &lt;torque&gt;" in page
    assert "tables" in page
    scores = json.loads(
        mindyn_program("compare", "--logs", folder, "--set", "tables", "--method", folder / "mean.py", "--json").out
    )
    assert list(scores["methods"]["mean <torque>"]) == ["tables"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no robot was given"),
        (("planar2", "--logs", "."), "not both"),
        (("planar2", "--set", "a"), "belong to --logs"),
        (("--logs", "."), "splits.json"),
        (("--logs", ".", "--model", "x"), "names no set"),
    ],
)
def test_the_command_refuses_what_does_not_fit(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    ended = mindyn_program("compare", *arguments)
    assert ended.code != 0
    assert said in ended.err
