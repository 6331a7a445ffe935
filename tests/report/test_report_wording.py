"""Texts of a report: no praise for inconsistent or unvalidated models, one meaning for each word and number."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from reported_arms import FEASIBLE, arm, estimate_of, everything, log_of, trajectories_of

import mindyn
from mindyn.applications.validation.validate import Validation
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.foundation.pages.document import format_percent, typeset
from mindyn.identification.diagnostics.residual_patterns import REMEDIES
from mindyn.identification.feasibility.check_feasible import Feasibility
from mindyn.identification.feasibility.checks.answer import Answer
from mindyn.identification.feasibility.checks.positive_definite import check_positive_definite
from mindyn.identification.prediction.prediction_errors import EDGE_S, MAX_EDGE_FRACTION, TorqueError
from mindyn.output.report.comparison_section import comparison_section
from mindyn.output.report.feasibility_section import SAMPLED_NOTE, feasibility_section
from mindyn.output.report.motion_sections import excitation_section, motion_section
from mindyn.output.report.parameter_section import PHYSICAL_INTERVALS_NOTE, UNBOUNDED_INTERVALS_NOTE, parameter_section
from mindyn.output.report.provenance_section import list_settings, provenance_section
from mindyn.output.report.report_data import ErrorColumn, collect_report_data
from mindyn.output.report.torque_sections import describe_spectrum, residual_section, torque_section, unscored_times
from mindyn.output.report.verdict import (
    CONSISTENCY_UNDECIDED,
    FEASIBILITY_NOT_CHECKED,
    INCONSISTENT,
    INCONSISTENT_FIT,
    INCONSISTENT_SOME_JOINTS,
    NOT_VALIDATED,
    SOME_JOINTS_GOOD,
    SOME_JOINTS_USABLE,
    Commands,
    build_verdict,
    find_weakest_joint,
)
from mindyn.output.report.verdict_section import NO_HELD_OUT_NOTE, summarize_report, verdict_section
from mindyn.regression.settings import EquationSettings

STOOD = Finding(Kind.STILL_JOINT, Severity.ERROR, "it stood", "Record it moving")
LOADED = Finding(Kind.PAYLOAD_CHANGE, Severity.WARNING, "log 2 carries another payload")


def report_headline(data):
    """The headline of a report and the grade that colours it."""
    summary = summarize_report(data)
    return summary.headline, summary.grade


@pytest.fixture(scope="module")
def robot():
    return arm()


@pytest.fixture(scope="module")
def estimate(robot):
    return estimate_of(robot, dropped=("fo1",))


@pytest.fixture(scope="module")
def good(robot, estimate):
    return collect_report_data(estimate, [log_of(robot, 2)], [log_of(robot, 1)], FEASIBLE)


def text_of(section):
    """Return the text of a section without tags."""
    return unescape(re.sub(r"<[^>]*>", " ", section.body)).replace("\u00a0", " ")


@pytest.mark.parametrize("question", ["positive_definite", "consistent"])
def test_an_inconsistent_model_is_not_good(good, question):
    assert report_headline(good) == ("The model is good.", "good")
    refuted = replace(good, feasibility=(Answer(question, False, "It is not."),))
    assert report_headline(refuted) == (INCONSISTENT, "fair")
    assert "grade-good" not in verdict_section(refuted).body.split("<ul")[0]
    unvalidated = replace(refuted, verdict=replace(good.verdict, held_out=False))
    assert report_headline(unvalidated) == (INCONSISTENT_FIT, "fair")


def test_an_implausible_but_consistent_model_is_good(good):
    holds = {"positive_definite": None, "consistent": True, "plausible": False}
    answers = tuple(Answer(question, answer, "?") for question, answer in holds.items())
    assert report_headline(replace(good, feasibility=answers)) == ("The model is good.", "good")


def test_undecided_consistency_is_not_good(good):
    holds = {"positive_definite": True, "consistent": None, "plausible": None}
    answers = [Answer(question, answer, "?") for question, answer in holds.items()]
    assert Feasibility(*answers).is_infeasible is None
    undecided = replace(good, feasibility=tuple(answers))
    assert report_headline(undecided) == (CONSISTENCY_UNDECIDED, "fair")
    unvalidated = replace(undecided, verdict=replace(good.verdict, held_out=False))
    assert report_headline(unvalidated) == (NOT_VALIDATED, "fair")
    assert "could not be decided" in text_of(verdict_section(unvalidated))


def test_a_fit_without_held_out_logs_is_never_good(estimate):
    fit_only = collect_report_data(estimate, feasibility=FEASIBLE)
    assert report_headline(fit_only) == (NOT_VALIDATED, "fair")
    assert NO_HELD_OUT_NOTE in text_of(verdict_section(fit_only))


def test_a_poor_model_stays_poor(good):
    poor = replace(good, verdict=replace(good.verdict, grade="poor", held_out=False), feasibility=())
    assert report_headline(poor) == ("The model is poor.", "poor")
    assert FEASIBILITY_NOT_CHECKED in text_of(verdict_section(poor))
    joints = (replace(good.verdict.joints[0], grade="unusable"), *good.verdict.joints[1:])
    uneven = replace(good, verdict=replace(good.verdict, joints=joints))
    assert report_headline(uneven) == (SOME_JOINTS_GOOD, "fair")
    refuted = (Answer("positive_definite", False, "It is not."),)
    assert report_headline(replace(uneven, feasibility=refuted)) == (INCONSISTENT_SOME_JOINTS, "fair")
    rough = tuple(replace(joint, grade="fair") for joint in joints[1:])
    assert report_headline(replace(uneven, verdict=replace(uneven.verdict, joints=(joints[0], *rough)))) == (
        SOME_JOINTS_USABLE,
        "fair",
    )
    mute = replace(joints[0], relative=np.inf)
    assert "–" not in text_of(
        verdict_section(replace(uneven, verdict=replace(uneven.verdict, joints=(mute, *joints[1:]))))
    )


def test_total_mean_and_weakest_errors_are_given_and_defined(good):
    text, parts = text_of(verdict_section(good)), [joint.relative for joint in good.verdict.joints]
    shown = (good.verdict.total, float(np.mean(parts)), max(parts))
    assert all(format_percent(value).replace("\u00a0", " ") in text for value in shown)
    assert f"at {good.joints[int(np.argmax(parts))].name}, the weakest joint" in text
    assert "root mean square of measured minus predicted torque" in text


def test_only_a_clearly_better_model_is_mentioned(good):
    total = good.verdict.total
    for part, is_mentioned in ((0.997, False), (0.8, True)):
        columns = (ErrorColumn("this estimate", (total,), total, ""), ErrorColumn("other", (total,), part * total, ""))
        assert ("has a smaller error" in text_of(verdict_section(replace(good, comparison=columns)))) == is_mentioned


def test_similar_errors_differ_in_the_table_and_projection_is_mentioned(robot, estimate, good):
    close = tuple(ErrorColumn(f"model {k}", (0.12 + k * 1e-4,) * 4, 0.12, "") for k in range(3))
    text = text_of(comparison_section(replace(good, comparison=close)))
    assert all(f"12.0{k} %" in text for k in range(3))
    assert "mean over joints" in text
    projected_estimate = estimate.with_values(projected=True)
    data = collect_report_data(estimate, [log_of(robot, 2)], comparison={"projected": projected_estimate})
    assert "projected onto the nearest physically consistent values" in text_of(comparison_section(data))


def test_parameters_that_may_be_zero_have_no_relative_deviation(estimate):
    dust = estimate.with_values(beta=np.where(np.arange(len(estimate.beta)) == 0, 1e-15, estimate.beta))
    data = collect_report_data(dust)
    near = [row for row in data.parameters if row.state == "not significant"]
    assert near
    assert all(row.relative is None for row in near)
    assert max(row.relative for row in data.parameters if row.relative is not None) < 0.52
    row = re.search(rf"<code>{data.parameters[0].name}</code>.*?</tr>", parameter_section(data).body)[0]
    assert ">0</span>" in row
    assert "10⁻" not in row.split("<td")[2]


@pytest.fixture(scope="module")
def consistent(robot):
    log = log_of(robot, 1, noise=3.0)
    return mindyn.identify(
        robot, log, mindyn.PhysicallyConsistent(kinds="all", prior=None), EquationSettings(mindyn.Conditioning())
    )


def test_intervals_of_a_constrained_fit_are_clipped_at_zero(consistent):
    assert PHYSICAL_INTERVALS_NOTE in text_of(parameter_section(collect_report_data(consistent)))
    assert "without physical bounds" not in consistent.table()
    earlier = consistent.with_values(physical=replace(consistent.values.physical, ends=None))
    at_zero = earlier.with_values(beta=np.where(np.array(earlier.names) == "fv1", 0.0, earlier.beta))
    data = collect_report_data(at_zero)
    row = next(row for row in data.parameters if row.name == "fv1")
    assert (row.low, row.clipped) == (0.0, True)
    assert row.high > 0
    offset = next(row for row in data.parameters if row.name == "fo1")
    assert not offset.clipped
    text = text_of(parameter_section(data))
    assert UNBOUNDED_INTERVALS_NOTE in text
    assert "0* to" in text
    free = collect_report_data(at_zero.with_values(physical=None))
    assert not any(row.clipped for row in free.parameters)
    assert "without physical bounds" in earlier.table()


def test_link_masses_are_given_once(consistent):
    """Check that masses of a consistent fit agree in answer and record, and that the settings do not repeat them."""
    physical_values = dict(zip(consistent.values.physical.labels, consistent.values.physical.values, strict=True))
    answer = mindyn.check_feasible(consistent).consistent
    assert answer.witness["physical"] == physical_values
    assert list(answer.witness["masses"].values()) == [
        mass
        for label, mass in physical_values.items()
        if label in {f"m{i + 1}" for i in range(len(answer.witness["masses"]))}
    ]
    names = list(list_settings(consistent))
    assert not [name for name in names if name.startswith(("physical", "unconstrained", "tried"))]


def test_dropped_parameters_are_counted_with_the_condition_number(good):
    assert f"1 of {len(good.parameters)} parameters were dropped" in text_of(excitation_section(good))


def test_unscored_ends_are_shaded_and_explained(good):
    unscored, time = unscored_times(good.logs[0].prediction), good.logs[0].prediction.time
    (first, second), end = unscored, time[-1] - time[0]
    edge = min(EDGE_S, MAX_EDGE_FRACTION * end)
    assert first == pytest.approx((0.0, edge), abs=0.006)
    assert second == pytest.approx((end - edge, end), abs=0.006)
    section = torque_section(good)
    assert section.plots["torque-0-0"]["shaded"] == unscored
    assert "Shaded: 1 s, or 5 %" in text_of(section)


def test_samples_and_equations_are_distinguished(robot, good):
    filtered = estimate_of(robot, treated={"equations_hz": 5.0, "keep_every": 4})
    counts = [residual.rows for residual in filtered.data.residuals]
    expected = f"{sum(counts)} equations ({max(counts)} samples of 4 joints, low-passed at 5 Hz, one of 4 kept)"
    assert expected in filtered.status
    assert expected in filtered.table()
    everywhere = (verdict_section, torque_section, residual_section, excitation_section, provenance_section)
    assert not [make.__name__ for make in everywhere if re.search(r"\d\s+rows", text_of(make(good)))]


def test_details_are_readable_and_sampling_is_not_called_a_proof(good, estimate):
    answer = check_positive_definite(estimate, ranges={"joint3": (-0.1, 0.1)}, count=200)
    text = text_of(feasibility_section(replace(good, feasibility=(answer,))))
    assert "Details" in text
    assert "proves" not in text
    assert not re.search(r"[a-z]_[a-z]|\{|\^|e-\d", text)
    assert (SAMPLED_NOTE in text) == bool(answer.holds)


def test_text_is_typeset():
    assert typeset("-1.5e-05 kg m^2 at q = -0.1 (-3)") == "−1.5·10⁻⁵ kg m² at q = −0.1 (−3)"
    assert typeset("run-1.csv, joint-2, 1e3") == "run-1.csv, joint-2, 1·10³"


def test_a_peak_frequency_is_mentioned_only_if_there_is_a_peak():
    frequency = np.linspace(1.0, 100.0, 50)
    for peak, is_mentioned in ((1.5, False), (50.0, True)):
        power = np.where(np.arange(50) == 20, peak, 1.0)
        assert ("has a peak near 41" in describe_spectrum(frequency, power)) == is_mentioned


def test_the_input_of_the_simulation_is_described(robot, estimate):
    log = log_of(robot, 2, count=400)
    for how, expected in (
        ("the controller replayed in closed loop.", "The controller replayed in closed loop."),
        ("", "is not known"),
    ):
        motion = trajectories_of(log, log.q, how)
        assert expected in text_of(motion_section(collect_report_data(estimate, motion=motion)))


def test_units_have_one_style(robot, estimate):
    data = collect_report_data(estimate, **everything(robot))
    for make in (verdict_section, parameter_section, excitation_section, feasibility_section, provenance_section):
        assert not re.search(r"\^\d|(?<=[\s(])-\d", text_of(make(data))), make.__name__


def test_next_steps_follow_the_verdict(good):
    """Suggest an export if the model is usable, with care for weak joints; otherwise a projection or another log."""

    def list_advice(data):
        return [(item.sentence.split()[0], item.command) for item in summarize_report(data).advice]

    run = replace(good, commands=Commands("arm.urdf", "run 1", "urdf"))
    assert list_advice(run) == [("Use", "mindyn export 'run 1' --to urdf --out model.urdf")]
    unfit = replace(run, verdict=replace(run.verdict, findings=(STOOD,)))
    assert report_headline(unfit) == ("This log cannot identify this robot.", "unusable")
    assert "It stood. Record it moving." in verdict_section(unfit).body
    assert list_advice(unfit) == [("Do", "mindyn excite arm.urdf --seconds 30 --out motion")]
    wrong = replace(run, verdict=replace(run.verdict, findings=(LOADED,)))
    assert report_headline(wrong) == ("The information about the robot or its logs seems to be wrong.", "fair")
    assert "Log 2 carries another payload." in verdict_section(wrong).body
    assert list_advice(wrong) == [("Do", "")]
    no = tuple(replace(item, holds=False) for item in FEASIBLE)
    impossible = replace(run, feasibility=no)
    assert list_advice(impossible)[0] == ("Make", "mindyn export 'run 1' --to urdf --out model.urdf --feasible")
    alone = replace(run, verdict=replace(run.verdict, held_out=False))
    assert [sentence for sentence, _ in list_advice(alone)][:1] == ["Validate"]
    assert "Use" not in {sentence for sentence, _ in list_advice(alone)}
    assert list_advice(alone)[0] == ("Validate", "mindyn report 'run 1' --validate other.csv")
    first, *others = run.verdict.joints
    weak = replace(run, verdict=replace(run.verdict, joints=(replace(first, grade="poor"), *others)))
    assert [sentence for sentence, _ in list_advice(weak)] == ["Use", "The"]
    assert f"not at {run.joints[0].name}" in summarize_report(weak).advice[0].sentence
    uncertain = replace(run, verdict=replace(run.verdict, uncertainty=2.0))
    assert [sentence for sentence, _ in list_advice(uncertain)] == ["Use", "Record"]
    assert "on motion like that of the log only" in summarize_report(uncertain).advice[0].sentence
    python = replace(run, commands=Commands("", "", "urdf"))
    assert list_advice(python) == [("Use", 'mindyn.write_urdf(estimate, "model.urdf")')]
    looped = replace(run, commands=Commands("arm.urdf", "run 1", "mjcf"))
    assert list_advice(looped) == [("Use", "mindyn export 'run 1' --to mjcf --out model.xml")]
    assert list_advice(replace(python, commands=Commands("", "", "toml"))) == [
        ("Use", 'mindyn.write_toml(estimate, "model.toml")')
    ]


def test_a_joint_that_is_missed_completely_forbids_use(good):
    first, *others = good.verdict.joints
    missed = replace(first, grade="unusable", relative=1.02)
    for grade in ("good", "fair"):
        data = replace(good, verdict=replace(good.verdict, grade=grade, joints=(missed, *others)))
        sentences = [item.sentence for item in summarize_report(data).advice]
        assert sentences[0] == f"Do not use it yet: it does not explain the torque of {good.joints[0].name}."
        assert not any(sentence.startswith("Use") for sentence in sentences)
    silent = replace(good, verdict=replace(good.verdict, joints=(replace(missed, relative=np.inf), *others)))
    assert [item.sentence.split()[0] for item in summarize_report(silent).advice] == ["Use"]


@pytest.mark.parametrize("pattern", REMEDIES)
def test_the_cause_of_the_largest_residual_is_the_advice(good, pattern):
    """More motion is recommended against noise alone."""
    _, second, *others = good.verdict.joints
    cause = Finding(Kind.RESIDUAL_PATTERN, Severity.INFO, "the cause", REMEDIES[pattern], details=(pattern,))
    worst, weak = (replace(second, grade="fair", relative=r, pattern=p) for r, p in ((0.28, cause), (0.2, None)))
    verdict = replace(good.verdict, joints=(weak, worst, *others))
    run = replace(good, commands=Commands("arm.urdf", "run", "urdf"), verdict=verdict)
    advice = summarize_report(run).advice[-1]
    assert advice.sentence == f"The cause. {REMEDIES[pattern]}."
    assert bool(advice.command) == (pattern == "noise")
    assert "The cause" in text_of(verdict_section(run))


def test_sensor_noise_alone_does_not_make_a_model_poor(estimate):
    """The total is graded no worse than the worst joint, which may be at the noise floor."""
    names = estimate.regressor.joint_names
    rms, relative = np.ones(len(names)), np.full(len(names), 0.4)
    error = TorqueError(names, rms, relative, 0.4, 1000)
    noisy, unexplained = (Validation(error, names, floor) for floor in (rms, 0.1 * rms))
    assert build_verdict(estimate, noisy, [], ()).grade == "noise"
    assert build_verdict(estimate, unexplained, [], ()).grade == "poor"


def test_a_joint_without_torque_is_not_the_weakest(good):
    first, mute, weak = (replace(good.verdict.joints[0], relative=relative) for relative in (0.1, np.inf, 0.3))
    assert find_weakest_joint([first, mute, weak]) is weak
    assert find_weakest_joint([mute, replace(mute, name="other")]) is mute
