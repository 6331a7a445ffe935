"""Names of columns state signal, unit and role as recorders write them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from draft_parts import clock_of

from mindyn.logs.drafts.draft_head import (
    Clock,
    fitting_velocity_units,
    guess_position_side,
    guess_position_unit,
    read_lerobot_names,
)
from mindyn.logs.drafts.draft_names import guess_signal, guess_unit, is_measured, split_words
from mindyn.logs.drafts.drafting import draft_sidecar
from mindyn.robots.loading import load_robot


@pytest.mark.parametrize(
    ("name", "words"),
    [("act_pos_motDeg1", "act pos mot deg"), ("tau_J[3]", "tau j"), ("qVel2", "q vel"), ("TCPForce", "tcp force")],
)
def test_words_of_names(name, words):
    assert split_words(name) == tuple(words.split())


@pytest.mark.parametrize(
    ("words", "signal"),
    [
        ("q", ("position", 0)),
        ("current position", ("position", 2)),
        ("motor current", ("torque", 9)),
        ("v", ("velocity", 8)),
        ("v arm", None),
        ("i", ("torque", 14)),
        ("q arm", ("position", 0)),
        ("observation state", ("position", 99)),
        ("temperature", None),
    ],
)
def test_signals_that_words_mean(words, signal):
    assert guess_signal(words.split()) == signal


def test_references_and_other_things_are_not_measured():
    assert is_measured(["q"])
    assert is_measured(["d"])  # alone it says nothing of desired
    for words in (["q", "d"], ["q", "target"], ["tcp", "pos"], ["tau", "c"]):
        assert not is_measured(words)
    assert guess_unit("position", ["q", "deg"], ["deg"]) == "deg"
    assert guess_unit("position", ["m", "q"], ["q"]) is None  # one letter is a unit at the end alone
    assert guess_unit("position", ["q", "m"], ["m"]) == "m"


def test_the_unit_of_time_is_that_of_the_name_unless_the_rate_speaks_against_it():
    t = np.arange(50.0)
    assert clock_of({"time_ms": 5 * t}).unit == "ms"
    against = clock_of({"time_s": 5 * t})  # 0.2 Hz as named
    assert (against.unit, against.seconds[1]) == ("ms", 0.005)
    assert clock_of({"time": 0.005 * t}).unit == "s"
    unknown = clock_of({"time": 3e11 * t})
    assert (unknown.unit, unknown.columns) == (None, ("time",))
    assert clock_of({"time_s": 3e11 * t}).unit == "s"  # said, and nothing fits
    assert clock_of({"q": t}) == clock_of({}) or clock_of({"q": t}).columns == ()
    assert Clock(seconds=np.arange(5.0)).restarts == 0
    late = 0.005 * t
    assert "200 Hz; " in clock_of({"time": late}).evidence
    late[10] += 0.001
    assert "200 Hz, 4 % of the steps differ from it; " in clock_of({"time": late}).evidence


@pytest.mark.parametrize(("slope", "units"), [(1.0, ["rad/s"]), (57.3, ["deg/s"]), (1.39, ["rad/s"]), (1.41, [])])
def test_units_of_velocities(slope, units):
    assert fitting_velocity_units("rad", slope, "revolute") == units
    assert fitting_velocity_units("m", 1000.0, "prismatic") == ["mm/s"]


def test_units_of_positions_by_their_size():
    slides = ["prismatic"]
    assert guess_position_unit(np.array([[19.0]]), None, slides).value == "m"
    assert guess_position_unit(np.array([[-21.0]]), None, slides).value == "mm"
    turns = ["revolute"]
    assert guess_position_unit(np.array([[0.19]]), None, turns).value is None
    assert guess_position_unit(np.array([[0.21]]), None, turns).value == "rad"
    assert guess_position_unit(np.array([[4.1 * np.pi]]), None, turns).value == "rad"
    far = guess_position_unit(np.array([[90.0]]), None, turns)
    assert far.value is None
    robot = load_robot("planar2")
    assert guess_position_side(np.ones((4, 2)), "deg", robot).value == "joint"
    assert guess_position_side(np.ones((4, 2)), "deg", None).value is None
    beyond = [guess_position_side(np.full((4, 2), scale * 4 * np.pi), "rad", robot) for scale in (1.4, 2.0, 6.0)]
    assert [item.value for item in beyond] == ["joint", None, None]


def test_names_of_a_dataset_serve_where_they_are_texts_of_all_joints(tmp_path):
    (tmp_path / "meta").mkdir()
    path = tmp_path / "data" / "episode.parquet"

    def said(names):
        text = json.dumps({"features": {"state": {"names": names}}})
        (tmp_path / "meta" / "info.json").write_text(text)
        return read_lerobot_names(path, "state", ("elbow_joint", "wrist_joint"))

    assert said(["main_wrist.pos", "main_elbow.pos"]) == ["wrist_joint", "elbow_joint"]
    assert said({"motors": ["elbow", "wrist", "grip"]}) == ["elbow_joint", "wrist_joint", "grip"]
    for wrong in ([0, 1], None, "elbow wrist", ["elbow", "grip"], ["elbow", "elbow", "wrist"], [["elbow"], ["wrist"]]):
        assert said(wrong) is None


def draft(folder, columns):
    rows = zip(*columns.values(), strict=True)
    text = "\n".join([",".join(columns), *(",".join(f"{value:.9g}" for value in row) for row in rows)])
    (folder / "run.csv").write_text(text + "\n")
    return {line.key: line for line in draft_sidecar(folder / "run.csv", load_robot("planar2")).lines}


def test_a_draft_contains_only_known_values(tmp_path):
    t = np.arange(400) / 100
    q = {f"pos_{k}": np.sin((k + 1) * t) for k in (1, 2)}
    v = {f"vel_{k}": (k + 1) * np.cos((k + 1) * t) for k in (1, 2)}
    tau = {f"torque_{k}": np.cos(k * t) for k in (1, 2)}
    timeless = draft(tmp_path, {**q, **v, **tau})
    assert (timeless["units.velocity"].value, timeless["rate_hz"].value) == ("rad/s", 100.0)
    timed = draft(tmp_path, {"time": t, **q, **v, **tau})
    assert timed["units.velocity"].value == "rad/s"
    slow = draft(tmp_path, {"time": t, **q, **{name: np.rad2deg(item) for name, item in v.items()}, **tau})
    assert slow["units.velocity"].value == "deg/s"
    named = draft(tmp_path, {**q, **{f"vel_deg_s_{k}": item for k, item in enumerate(v.values(), 1)}, **tau})
    assert (named["units.velocity"].value, named["rate_hz"].value) == ("deg/s", "?")
    tiny = {name: 0.01 * item for name, item in q.items()}  # radians or degrees
    unknown = draft(tmp_path, {"time": t, **tiny, **{f"acc_{k}": item for k, item in enumerate(v.values(), 1)}, **tau})
    assert unknown["units.position"].value == unknown["units.acceleration"].value == "?"
    known = draft(tmp_path, {"time": t, **q, **{f"acc_{k}": item for k, item in enumerate(v.values(), 1)}, **tau})
    assert known["units.acceleration"].value == "rad/s^2"
    other = draft(tmp_path, {"time": t, **q, **{name: item[::-1] ** 2 for name, item in v.items()}, **tau})
    assert "columns.velocity" not in other
