"""Mistakes of users end with a message about their cause, and write nothing."""

import warnings

import numpy as np
import pytest
from cli.program import mindyn_program
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError

HEAD = "time,joint1.position,joint2.position,joint1.torque,joint2.torque"


@pytest.fixture(scope="module")
def recording():
    """A log of planar2 as an array with the columns of HEAD, and its sidecar."""
    robot, t = mindyn.load_robot("planar2"), np.arange(0, 8, 0.01)
    q = np.column_stack([np.sin(1.3 * t) + 0.5 * np.sin(2.9 * t), np.cos(1.7 * t) + 0.3 * np.sin(4.1 * t)])
    qd = np.gradient(q, t, axis=0)
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, np.gradient(qd, t, axis=0))
    return np.column_stack([t, q, tau])


SIDECAR = """side = "joint"
columns = { time = "time", position = "{joint}.position", torque = "{joint}.torque" }
units = { time = "s", position = "rad", torque = "N m" }
"""


@pytest.fixture
def write(recording, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_log(rows=slice(None), head=HEAD, change=lambda line: line):
        lines = [",".join(f"{value:.9g}" for value in row) for row in recording[rows]]
        (tmp_path / "run.csv").write_text("\n".join([*([head] if head else []), *map(change, lines)]) + "\n")
        (tmp_path / "run.csv.toml").write_text(SIDECAR)

    return write_log


def error_of(*words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ended = mindyn_program(*words)
    assert ended.code == 1, ended.out
    return " ".join(ended.err.split())


def identify(source="run.csv"):
    return error_of("identify", "planar2", source, "--out", "never")


@pytest.mark.parametrize(("rows", "expected"), [(1, "did the recording stop"), (2, "too few"), (9, "too few")])
def test_a_log_of_a_few_rows(write, rows, expected, tmp_path):
    write(slice(rows))
    assert expected in identify()
    assert not (tmp_path / "never").exists()


def test_decimal_commas_between_commas(write):
    write(change=lambda line: line.replace(".", ","))
    assert "decimal commas" in identify()


def test_a_row_with_too_many_cells_does_not_have_decimal_commas(write):
    write(change=lambda line: line + ",1.5,2.5")
    assert "decimal commas" not in identify()


def test_a_misspelled_column(write):
    write(head=HEAD.replace("joint2", "jiont2"))
    assert "is a name misspelled: jiont2.position for joint2.position?" in identify()


def test_the_column_of_another_joint_is_not_proposed(write):
    write(head=HEAD.replace("joint2", "shoulder_3"))
    assert "misspelled" not in identify()


def test_a_log_without_names(write):
    write(head="")
    assert "no line of column names" in identify()


def test_a_sidecar_without_quotes(write, tmp_path):
    write()
    (tmp_path / "run.csv.toml").write_text("side = joint\n")
    assert "text needs quotes" in identify()


def test_folders_that_are_no_log(write, tmp_path):
    write()
    for name, file, expected in (
        ("empty", None, "it is empty"),
        ("made", "run.json", "it is a run of mindyn"),
        ("logs", "a.csv", "it has a.csv"),
        ("bag", "bag_0.db3.zstd", "ros2 bag convert"),
    ):
        (tmp_path / name).mkdir()
        if file:
            (tmp_path / name / file).touch()
        assert expected in identify(name)


def test_a_robot_file_in_toml_is_named(tmp_path):
    (tmp_path / "arm.toml").write_text("a = [1,\n")
    assert "arm.toml is not valid TOML" in error_of("robots", tmp_path / "arm.toml")


@pytest.fixture(scope="module")
def estimate(recording):
    robot = mindyn.load_robot("planar2")
    t, q, tau = recording[:, 0], recording[:, 1:3], recording[:, 3:]
    return mindyn.identify(robot, mindyn.log_from_arrays(robot, t, q, tau), mindyn.LeastSquares())


def test_swapped_arguments(write, estimate):
    write()
    estimate.save("estimate.json")
    for words in (
        ("payload", "run.csv", "estimate.json"),
        ("report", "run.csv"),
        ("check", "run.csv"),
        ("export", "run.csv", "--to", "urdf", "--out", "never"),
    ):
        assert "'run.csv' is not a run of `mindyn identify`" in error_of(*words)


def test_a_log_without_torque_validates_nothing_and_has_no_payload(recording, estimate):
    log = mindyn.log_from_arrays(estimate.robot, recording[:, 0], recording[:, 1:3], 0 * recording[:, 3:])
    for use in (mindyn.validate, mindyn.identify_payload):
        with raises(InputError, code=Code.TOO_LITTLE_DATA, subject="torque"):
            use(estimate, log)
