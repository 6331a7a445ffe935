"""Logs without names, or with unknown names: their numbers show the signals, and the user's word counts."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from closeness import ROUND_TRIP, SAME_ALGEBRA, assert_close
from raising import raises
from test_drafts import QD, RATE, ROBOT, ROWS, TAU, N, Q, T, by_joint, csv, number_columns
from typer.testing import CliRunner

from mindyn.cli.main import app
from mindyn.foundation.errors import Code
from mindyn.identification.log_drafts import draft_log
from mindyn.logs.drafts.draft_names import guess_signal, is_measured, split_words
from mindyn.logs.log_errors import LogError
from mindyn.logs.read_log import read_log

QDD = np.gradient(QD, T, axis=0)
NOISE = np.random.default_rng(5)


def block(start):
    return [f"column_{k}" for k in range(start, start + N)]


def headerless(path, *blocks):
    pl.DataFrame(np.column_stack(blocks)).write_csv(path, include_header=False)
    return path


def run(*words):
    return CliRunner().invoke(app, ["log", *map(str, words)])


def test_blocks_without_names_are_found_by_their_numbers(tmp_path):
    noisy = Q + NOISE.normal(0, 1e-5, Q.shape), QD + NOISE.normal(0, 0.02, QD.shape)
    draft = draft_log(headerless(tmp_path / "run.csv", T, *noisy, QDD, TAU), ROBOT)
    assert not draft.questions
    assert draft.value("columns.time") == "column_1"
    starts = {"position": 2, "velocity": 2 + N, "torque": 2 + 3 * N}
    assert {signal: draft.value(f"columns.{signal}") for signal in starts} == {s: block(k) for s, k in starts.items()}
    assert draft.value("columns.acceleration") is None  # commanded or measured: listed, never used
    assert any(f"column_{2 + 2 * N} to column_{1 + 3 * N} (acceleration)" in note for note in draft.notes)
    log = read_log(tmp_path / "run.csv", ROBOT, metadata=draft.to_metadata())
    assert_close(log.tau, TAU, ROUND_TRIP)


@pytest.mark.parametrize("rate", [25.0, 125.0, 1000.0])
def test_the_rate_is_that_of_the_velocity_over_the_differenced_position(tmp_path, rate):
    path = headerless(tmp_path / "run.csv", np.arange(ROWS), Q, QD * rate / RATE, TAU)
    draft = draft_log(path, ROBOT)
    assert draft.value("rate_hz") == rate
    assert "correlation 1.000" in next(line.evidence for line in draft.lines if line.key == "rate_hz")


def test_an_odd_rate_or_an_unlike_velocity_leaves_a_question(tmp_path):
    odd = headerless(tmp_path / "odd.csv", Q, QD * 1432.4 / RATE, TAU)  # deg/s for rad at 25 Hz
    assert "rate_hz" in draft_log(odd, ROBOT).questions
    named = {
        **number_columns("q{i}", Q),
        **number_columns("qd{i}", NOISE.normal(0, 1, Q.shape)),
        **number_columns("tau{i}", TAU),
    }
    assert "rate_hz" in draft_log(csv(named, tmp_path / "run.csv"), ROBOT).questions


def test_several_candidates_are_a_question(tmp_path):
    model = headerless(tmp_path / "model.csv", T, Q, QD, TAU, 1.1 * TAU)
    draft = draft_log(model, ROBOT)
    assert draft.questions == ("columns.torque",)
    (evidence,) = (line.evidence for line in draft.lines if line.key == "columns.torque")
    assert json.dumps(block(2 + 2 * N)) in evidence
    assert json.dumps(block(2 + 3 * N)) in evidence
    commanded = headerless(tmp_path / "commanded.csv", T, Q, Q + 1e-3, QD, TAU)
    assert "columns.position" in draft_log(commanded, ROBOT).questions
    named = {"t": T, **number_columns("q{i}", Q), **number_columns("model_tau{i}", TAU)}
    only_model = draft_log(csv(named, tmp_path / "run.csv"), ROBOT)
    assert only_model.questions == ("columns.torque",)
    assert '"model_tau{i}"' in next(line.evidence for line in only_model.lines if line.is_question)


def test_positions_and_torques_without_a_velocity_are_separated_by_the_limits(tmp_path):
    draft = draft_log(headerless(tmp_path / "run.csv", Q, TAU), ROBOT)
    assert (draft.value("columns.position"), draft.value("columns.torque")) == (block(1), block(1 + N))
    both = draft_log(headerless(tmp_path / "degrees.csv", np.rad2deg(Q), TAU), ROBOT)
    assert {"columns.position", "columns.torque"} <= set(both.questions)


def test_positions_are_recognised_if_the_torque_is_known(tmp_path):
    """By a name, or by the user's word; a known torque says nothing about the motion."""
    path = csv({"t": T, **number_columns("ax{i}_act", Q), **number_columns("ax{i}_trq", TAU)}, tmp_path / "run.csv")
    draft = draft_log(path, ROBOT)
    assert (draft.value("columns.position"), draft.value("columns.torque")) == ("ax{i}_act", "ax{i}_trq")
    done = run(
        headerless(tmp_path / "bare.csv", Q, TAU), "panda", "--state", f"columns.torque={block(1 + N)}", "--json"
    )
    lines = {line["key"]: line["value"] for line in json.loads(done.stdout)["lines"]}
    assert (lines["columns.position"], lines["columns.torque"]) == (block(1), block(1 + N))
    assert "columns that are not used" not in done.stdout


NAMES = {
    "unknown words": (lambda v: number_columns("alpha_{i}", v), lambda v: number_columns("gamma_{i}", v), {}),
    "units": (lambda v: number_columns("ax{i}_act_rad", v), lambda v: number_columns("ax{i}_trq", v), {}),
    "by joint": (lambda v: by_joint("state_{joint}", v), lambda v: by_joint("eff_{joint}", v), {}),
    "German": (
        lambda v: (
            number_columns("Achse {i} Istwinkel [°]", np.rad2deg(v)) | number_columns("Achse {i} Sollwinkel [°]", v)
        ),
        lambda v: number_columns("Achse {i} Drehmoment [Nm]", v),
        {"separator": ";", "decimal_comma": True},
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_are_understood(tmp_path, name):
    position, torque, how = NAMES[name]
    speed = number_columns("beta_{i}", QD) if name == "unknown words" else {}
    path = csv({"Zeit [ms]": 1000 * T, **position(Q), **speed, **torque(TAU)}, tmp_path / "run.csv", **how)
    draft = draft_log(path, ROBOT)
    assert not draft.questions, draft.toml()
    log = read_log(path, ROBOT, metadata=draft.to_metadata())
    assert_close(log.q, Q, SAME_ALGEBRA)
    assert_close(log.tau, TAU, ROUND_TRIP)


@pytest.mark.parametrize(
    ("name", "signal", "measured"),
    [
        ("Istposition", "position", True),
        ("Sollgeschwindigkeit", "velocity", False),
        ("Motorstrom [A]", "torque", True),
        ("A1 Drehzahl [rpm]", "velocity", True),
        ("ax1_act_deg_per_s", "velocity", True),
        ("dist", None, True),
    ],
)
def test_german_words_and_units_name_signals(name, signal, measured):
    words = split_words(name)
    assert (meant := guess_signal(words)) is None or meant[0] == signal
    assert is_measured(words) is measured


def test_what_the_user_states_is_obeyed_without_names(tmp_path):
    path = headerless(tmp_path / "run.csv", np.rad2deg(Q), TAU)
    words = ["--state", f"columns.position={block(1)}", "--state", f"columns.torque={json.dumps(block(1 + N))}"]
    words += ["--state", "rate_hz=125", "--state", "units.position=deg"]
    confirmed = run(path, "panda", *words, "--confirm")
    assert confirmed.exit_code == 0, confirmed.output
    log = read_log(path, ROBOT)
    assert_close(log.q, Q, SAME_ALGEBRA)
    assert_close(log.tau, TAU, ROUND_TRIP)


def test_wrong_answers_are_rejected(tmp_path):
    path = headerless(tmp_path / "run.csv", Q, TAU)
    for entry, code, subject in (
        ({"columns": {"position": ["column_99"] * N}}, Code.UNKNOWN_NAME, "column_99"),
        ({"columns": {"position": block(1)[:3]}}, Code.WRONG_SHAPE, "columns.position"),
        ({"columns": {"time": "stamp"}}, Code.UNKNOWN_NAME, "stamp"),
        ({"colums": {}}, Code.UNKNOWN_NAME, "colums"),
        ({"rate_hz": -1}, Code.INVALID_VALUE, "rate_hz"),
    ):
        with raises(LogError, code=code, subject=subject):
            draft_log(path, ROBOT, entry)


def test_a_partial_sidecar_is_completed(tmp_path):
    path = csv({"t": T, **number_columns("a{i}", np.rad2deg(Q)), **number_columns("b{i}", TAU)}, tmp_path / "run.csv")
    sidecar = tmp_path / "run.csv.toml"
    sidecar.write_text('columns.position = "a{i}"\nunits.position = "deg"\n')
    shown = run(path, "panda")
    assert shown.exit_code == 0, shown.output
    assert 'columns.torque = "b{i}"' in shown.stdout
    assert 'units.position = "deg"' in shown.stdout
    assert 'columns.position = "a{i}"  # given by you' in shown.stdout
    assert sidecar.read_text().startswith("columns.position")  # nothing was written
    assert run(path, "panda", "--confirm").exit_code == 0
    assert_close(read_log(path, ROBOT).tau, TAU, ROUND_TRIP)
    assert run(path, "panda", "--state", "units.position=rad").exit_code != 0  # complete: it is the user's
