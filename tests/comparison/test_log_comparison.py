"""`mindyn compare --logs`: read the sets of a folder by their splits.json, and score methods by the rules."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli.program import mindyn_program
from closeness import SAME_ALGEBRA, assert_close
from comparison.same_process import methods_in_this_process
from estimators.recovered import smooth_samples
from raising import raises

import mindyn
from mindyn.applications.comparison.log_comparison import compare_on_logs
from mindyn.applications.comparison.log_methods import load_method
from mindyn.applications.comparison.log_sets import read_sets
from mindyn.foundation.errors import Code, InputError
from mindyn.output.export.toml_writer import write_toml

PIPELINE = str(Path(__file__).parents[2] / "leaderboard" / "methods" / "pinocchio_pipeline.py")
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
    result = np.eye(2).tolist()
    common = {"rate_hz": motion.rate_hz, "model": "model/arm.toml (as it is)", "joints": list(robot.joint_names)}
    rows = [{"rows": [0, 2000]}], [{"rows": [2000, 3000], "score_rows": [2020, 2980]}]
    arrays = {
        "position": {"array": "q", "scale": 1.0, "to_joint": result, "offset": [0.0, 0.0]},
        "velocity": None,
        "torque": {"array": "tau", "to_joint": result},
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
    train, held_out = ([{**item, "file": file} for item in part] for part in rows)
    return {"train": train, "held_out": held_out}


def change_splits(folder, change):
    path = folder / "splits.json"
    content = json.loads(path.read_text())
    change(content["sets"]["tables"])
    path.write_text(json.dumps(content))


@pytest.fixture
def same_process():
    with methods_in_this_process():
        yield


def test_sets_are_read_as_described(folder, motion):
    splits = read_sets(folder)
    assert [split.name for split in splits] == ["arrays, main", "arrays, other", "tables"]
    for split in splits:
        (log,) = split.training
        assert_close(log.q, motion.q[:2000], SAME_ALGEBRA)
        assert_close(log.tau, motion.tau[:2000], SAME_ALGEBRA)
        (held_out,) = split.held_out
        assert (len(held_out.log), held_out.rows) == (3000, (2020, 2980))


@pytest.mark.usefixtures("same_process")
def test_a_score_is_the_measure_on_the_scored_rows(folder, motion):
    (folder / "mean.py").write_text(MEAN)
    result = compare_on_logs(read_sets(folder), [str(folder / "mean.py")], folder)
    mean = motion.tau[:2000].mean(axis=0)
    scored = motion.tau[2020:2980]
    expected = np.linalg.norm(scored - mean) / np.linalg.norm(scored)
    for split in result.splits:
        assert_close(result.scores["mean torque"][split].total, expected, SAME_ALGEBRA)


def test_no_method_gets_the_held_out_torque(folder):
    (folder / "cheat.py").write_text(CHEAT)
    result = compare_on_logs(read_sets(folder), [str(folder / "cheat.py")], folder)
    assert all(score.total == 1.0 for score in result.scores["cheat"].values())  # it was given zeros


READER = """
from pathlib import Path
import numpy

name = "reader"


def fit(robot, logs):
    truth = numpy.load(Path("{folder}") / "arrays" / "run.npz")["tau"]
    return lambda log: truth
"""
SAVER = """
import shutil

name = "saver"


def fit(robot, logs):
    shutil.copy("task.pickle", "{folder}/copy.pickle")
    return lambda log: log.q * float("nan")
"""


def test_a_method_that_opens_the_recordings_has_no_score(folder, tmp_path_factory):
    method = tmp_path_factory.mktemp("methods") / "reader.py"
    method.write_text(READER.replace("{folder}", str(folder)))
    result = compare_on_logs(read_sets(folder, ["arrays"]), [str(method)], folder)
    for score in result.scores["reader"].values():
        assert (score.total, score.coverage) == (None, None)
        assert "tried to read the recordings" in score.reason


def test_held_out_torque_is_not_in_the_folder_of_a_method(folder, tmp_path_factory, motion):
    """Search the bytes that a method is given for each held-out torque, as numbers of either byte order."""
    other = tmp_path_factory.mktemp("methods")
    (other / "saver.py").write_text(SAVER.replace("{folder}", str(other)))
    (split, *_) = read_sets(folder, ["arrays"])
    result = compare_on_logs([split], [str(other / "saver.py")], folder)
    assert result.scores["saver"][split.name].reason == "a scored row has no finite torque"
    given = (other / "copy.pickle").read_bytes()
    held_out, training = motion.tau[2000:3000], motion.tau[:2000]
    assert training.tobytes() in given
    for kind in ("<f8", ">f8", "<f4"):
        assert not any(value.astype(kind).tobytes() in given for value in held_out.ravel())
    assert given.count(str(folder).encode()) == 1  # the folder that it must not read, and nothing that points into it


@pytest.mark.usefixtures("same_process")
def test_scores_are_given_for_joints_parts_and_bands(folder):
    (split, *_) = read_sets(folder, ["arrays"])
    scores = compare_on_logs([split], ["weighted", "consistent"], folder).scores
    score = scores["weighted"][split.name]
    tau = split.held_out[0].log.tau[2020:2980]
    squares = (np.array(score.joints) * np.linalg.norm(tau, axis=0)) ** 2
    assert_close(np.sqrt(squares.sum()) / np.linalg.norm(tau), score.total, SAME_ALGEBRA)
    assert min(score.parts) <= score.total <= max(score.parts)
    assert score.coverage is not None
    assert score.coverage > 0.5
    assert scores["consistent"][split.name].is_consistent
    assert score.seconds > 0
    assert score.wall_s > 0


@pytest.mark.usefixtures("same_process")
def test_our_fit_and_pinocchio_explain_an_arm_without_noise(folder):
    pytest.importorskip("pinocchio")
    result = compare_on_logs(read_sets(folder, ["arrays"]), ["weighted", PIPELINE], folder)
    assert all(score.total < 0.01 for scores in result.scores.values() for score in scores.values()), result.table()


def test_two_recordings_are_compared_by_their_intervals(folder):
    (split, *_) = read_sets(folder)
    halves = tuple(split.training[0].between(a, b) for a, b in ((0, 1000), (1000, 2000)))
    result = compare_on_logs([replace(split, training=halves)], [], folder)
    item = result.agreements[split.name]
    assert 0 < item.within <= item.compared
    assert compare_on_logs([split], [], folder).agreements == {}


@pytest.mark.parametrize(
    ("change", "code", "subject"),
    [
        (lambda entry: entry.pop("splits"), Code.WRONG_FORMAT, "tables"),
        (lambda entry: entry["position"].update(scale=2.0), Code.WRONG_UNIT, "position"),
        (lambda entry: entry["position"].update(to_joint=[[2, 0], [0, 2]]), Code.DISAGREEMENT, "position"),
    ],
)
def test_invalid_sets_raise(folder, change, code, subject):
    change_splits(folder, change)
    with raises(mindyn.MindynError, code, subject):
        read_sets(folder)


def test_a_missing_model_of_a_set_is_named(folder):
    change_splits(folder, lambda entry: entry.update(model="model/none.toml"))
    with raises(mindyn.MindynError, Code.MISSING_FILE, "none.toml"):
        read_sets(folder)


def test_unknown_methods_raise(tmp_path):
    (tmp_path / "empty.py").write_text("x = 1")
    (tmp_path / "broken.py").write_text("1 / 0")
    for name, code in (
        ("least", Code.UNKNOWN_NAME),
        (str(tmp_path / "no.py"), Code.MISSING_FILE),
        (str(tmp_path / "empty.py"), Code.WRONG_FORMAT),
        (str(tmp_path / "broken.py"), Code.UNREADABLE),
    ):
        with raises(InputError, code, name):
            load_method(name)


@pytest.mark.usefixtures("same_process")
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
    ("arguments", "message"),
    [
        ((), "--logs"),
        (("--logs", "."), "splits.json"),
        (("--logs", ".", "--model", "x"), "must be SET=FILE"),
    ],
)
def test_the_command_rejects_invalid_arguments(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    ended = mindyn_program("compare", *arguments)
    assert ended.code != 0
    assert message in ended.err
