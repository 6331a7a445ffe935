"""Logs that cannot identify their robot are said to be so, with the reason; sound ones are not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program
from honesty.coverage import recording_of, truth_of
from honesty.spoiled import ERRORS, TREATMENT, UNFIT, drawn, said, spoiled, trial

import mindyn
from mindyn.cli.exit_codes import ExitCode
from mindyn.estimators.estimate_parts import Physical
from mindyn.identification import identifiable
from mindyn.identification.identifiable import identifiability
from mindyn.logs.writing import write_log
from mindyn.regression.rows import rows_of


@pytest.mark.parametrize(("number", "fault"), list(enumerate([*ERRORS, *UNFIT], start=12)))
def test_what_is_wrong_with_a_log_is_named(number, fault):
    assert trial(number, fault)["good"]


@pytest.mark.parametrize("number", range(3))
def test_nothing_is_said_of_a_sound_log(number):
    assert trial(number, None) == {"fault": None, "good": True, "fit": True, "said": [], "number": number}


def test_the_verdict_names_reason_and_remedy_before_the_numbers():
    robot, log = spoiled(3, "one joint")
    found = mindyn.identify(robot, log, mindyn.LeastSquares(), TREATMENT)
    assert not found.identifiable.holds
    assert str(found.notes[0]) == found.identifiable.sentence
    assert found.identifiable.sentence.startswith("this log cannot identify this robot, because joint ")
    assert "; record a motion of every joint" in found.identifiable.sentence


def test_the_verdict_is_saved(tmp_path):
    robot, log = spoiled(4, "constant speed")
    found = mindyn.identify(robot, log, mindyn.LeastSquares(), TREATMENT)
    found.save(tmp_path / "estimate.json")
    assert mindyn.load_estimate(tmp_path / "estimate.json").identifiable == found.identifiable
    assert found.identifiable.uncertainty > 1


def test_rounded_torques_are_no_saturation():
    _, _, robot, log, _ = drawn(5)
    rounded = replace(log, tau=np.round(log.tau / (0.02 * np.ptp(log.tau, axis=0))) * 0.02 * np.ptp(log.tau, axis=0))
    _, verdict, _ = said(robot, rounded)
    assert not any("stops at one value" in one for one in verdict.because)


def test_uncertainty_is_that_of_other_motion():
    """Of a sound log it bounds what the model misses elsewhere; of a short one it is larger."""
    _, _, robot, log, _ = drawn(2)
    whole, short = (
        identifiability(mindyn.LeastSquares().fit(rows), rows.whole("this"), [one]).uncertainty
        for one in (log, log.take(slice(0, 400)))
        for rows in (rows_of(robot, one, TREATMENT),)
    )
    assert 0 < whole < 0.1
    assert short > 2 * whole


def test_truths_of_the_simulation_have_a_value_for_every_parameter():
    arm, how, robot, log, _ = drawn(1)
    found = mindyn.LeastSquares().fit(rows_of(robot, log, TREATMENT))
    assert truth_of(found, arm, how).shape == found.beta.shape
    assert recording_of(0).period_s


def test_the_command_says_it_first_and_ends_with_no(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    robot = mindyn.load_robot("planar2")
    time = np.arange(0, 8, 0.01)
    q = 0.5 + 0.3 * np.sin(np.outer(time, [2.0, 3.1]))
    noise = np.random.default_rng(0).standard_normal(q.shape)
    sides = {"position": "joint", "torque": "joint"}
    write_log(tmp_path / "log.csv", robot, time, {"position": q, "torque": 3 * noise}, sides)
    done = mindyn_program("identify", "planar2", "log.csv", "--json")
    assert done.code == ExitCode.NO
    verdict = json.loads(done.out)["identifiable"]
    assert not verdict["holds"]
    assert verdict["because"] == ["the torque does not follow the motion"]
    assert "this log cannot identify this robot, because the torque does not follow" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("part", "held", "verdict", "doubt"),
    [
        (0.9, False, True, False),
        (1.5, False, False, False),
        (1.5, True, True, True),
        (4.5, True, False, False),
    ],
)
def test_what_is_physical_makes_up_for_some_uncertainty(monkeypatch, part, held, verdict, doubt):
    _, _, robot, log, _ = drawn(0)
    rows = rows_of(robot, log, TREATMENT)
    found = mindyn.LeastSquares().fit(rows)
    physical = Physical((), np.zeros(0), found.beta) if held else None
    monkeypatch.setattr(identifiable, "_uncertainty", lambda *_: part)
    said_of = identifiability(replace(found, physical=physical), rows.whole("this"), [log])
    assert said_of.holds == verdict
    assert bool(identifiable.uncertain_doubts(said_of)) == doubt
    assert identifiable.uncertain(said_of) == (doubt or not verdict)


def test_a_torque_that_is_ahead_is_named_on_strong_evidence(monkeypatch):
    robot, log = spoiled(47, "late joint")  # joint 2 is 40 ms late; the others shifted, it is ahead
    rows = round(0.08 * 100)
    tau = log.tau[:-rows].copy()
    tau[:, 1] = log.tau[rows:, 1]
    ahead = replace(log.take(slice(0, -rows)), tau=tau)
    words = "the torque of joint joint2 is about 40 ms ahead of its motion"
    assert any(words in one for one in said(robot, ahead)[1].because)
    monkeypatch.setattr(identifiable, "AHEAD", np.inf)
    assert not any(words in one for one in said(robot, ahead)[1].because)
