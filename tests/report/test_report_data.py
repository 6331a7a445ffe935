"""Reports show the results of the lower layers; decimation keeps extremes; names are escaped."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import asdict, replace
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from estimators.recovered import smooth_samples
from raising import raises
from reported_arms import ANSWERS, arm, estimate_of, everything, log_of, trajectories_of

import mindyn
from mindyn.foundation.errors import Code, ExportError, InputError
from mindyn.foundation.pages.document import Html, Section, format_number, format_quantity, render_plot_numbers
from mindyn.foundation.pages.plots import (
    MAX_LEVEL,
    bucket_extremes,
    bucket_rows,
    bucket_times,
    pack_exactly,
    pack_levels,
)
from mindyn.identification.prediction.prediction import TorquePrediction
from mindyn.logs.conditioning import AS_LOGGED
from mindyn.logs.log import log_from_arrays
from mindyn.logs.samples import Samples
from mindyn.output.report.motion_sections import excitation_section
from mindyn.output.report.provenance_section import list_notes, provenance_section
from mindyn.output.report.report_data import LogView, collect_report_data
from mindyn.output.report.torque_sections import (
    compute_friction,
    friction_section,
    plot_torques,
    residual_section,
    torque_section,
)
from mindyn.output.report.write_report import build_page
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings

MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def robot():
    return arm()


@pytest.fixture(scope="module")
def estimate(robot):
    return estimate_of(robot, dropped=("fo1",))


@pytest.fixture(scope="module")
def data(robot, estimate):
    return collect_report_data(estimate, **everything(robot))


def unpack(packed):
    raw = base64.b64decode(packed["data"])
    if packed["kind"] == "f64":
        return np.frombuffer(raw, "<f8")
    return packed["low"] + np.frombuffer(raw, "<u2") * (packed["high"] - packed["low"]) / MAX_LEVEL


def torque_series(plots, joint, log=0):
    """Return measured torque, predicted torque and residual of a joint."""
    torque, residual = plots[f"torque-{log}-{joint}"]["panes"]
    return [*torque["series"], *residual["series"]]


@pytest.mark.parametrize(("count", "buckets"), [(10, 100), (200, 100), (1001, 100), (12345, 77), (1999, 1000)])
def test_decimation_keeps_minimum_and_maximum_of_every_bucket(count, buckets):
    values = np.random.default_rng(count).standard_normal(count)
    rows = bucket_rows(count, buckets)
    kept = bucket_extremes(values, buckets)
    if rows == 1:
        assert (kept == values).all()
        return
    assert len(kept) <= 2 * buckets
    for k in range(-(-count // rows)):
        part = values[k * rows : (k + 1) * rows]
        assert {kept[2 * k], kept[2 * k + 1]} == {part.min(), part.max()}
        assert (kept[2 * k] == part.min()) == (part.argmin() <= part.argmax())


def test_decimated_times_increase_and_match_the_extremes():
    time = np.arange(5000) / 1000
    kept = bucket_times(time, 300)
    assert kept.shape == bucket_extremes(time, 300).shape
    assert (np.diff(kept) >= 0).all()
    assert (kept[0], kept[-1]) == (time[0], time[-1])
    assert (bucket_extremes(time, 300) == kept).all(), "what only rises keeps its slope"


def test_packed_values_are_unpacked():
    values = np.random.default_rng(3).normal(size=1000)
    levels = unpack(asdict(pack_levels(values)))
    assert levels.min() == values.min()
    assert levels.max() == pytest.approx(values.max(), rel=1e-15)
    assert np.abs(levels - values).max() <= 0.501 * np.ptp(values) / MAX_LEVEL
    assert (unpack(asdict(pack_exactly(values))) == values).all()
    assert (unpack(asdict(pack_levels(np.full(5, 2.5)))) == 2.5).all()


def test_the_verdict_equals_validate(data, robot, estimate):
    verdict = mindyn.validate(estimate, log_of(robot, 2))
    assert data.verdict.held_out
    assert data.verdict.total == verdict.error.total
    assert tuple(joint.sentence for joint in data.verdict.joints) == verdict.sentences
    assert tuple(joint.grade for joint in data.verdict.joints) == verdict.grades


def count_plots(data):
    """Return the number of plots of each kind."""
    sections = (friction_section(data), residual_section(data), excitation_section(data), torque_section(data))
    names = [name.split("-")[0] for section in sections for name in section.plots]
    return {kind: names.count(kind) for kind in ("friction", "histogram", "coverage", "torque")}


def test_every_joint_and_parameter_is_reported(data, robot, estimate):
    n = robot.joint_count
    assert [joint.name for joint in data.joints] == list(robot.joint_names)
    assert [joint.torque_unit for joint in data.joints] == [
        "N" if j.kind == "prismatic" else "N m" for j in robot.joints
    ]
    assert count_plots(data) == {"friction": n, "histogram": n, "coverage": n, "torque": 2 * n}
    assert [view.role for view in data.logs] == ["held out", "training"]
    rows = {row.name: row for row in data.parameters}
    assert tuple(rows) == estimate.names
    assert rows["fo1"].state == "dropped"
    assert rows["fo1"].deviation is None
    assert rows["fo1"].low <= 0 <= rows["fo1"].high
    for k, name in enumerate(estimate.names):
        assert rows[name].value == estimate.beta[k]
    assert [rows[name].prior for name in estimate.base.names] == pytest.approx(list(estimate.base.values))
    prismatic = next(i for i, joint in enumerate(robot.joints) if joint.kind == "prismatic") + 1
    assert rows[f"fv{prismatic}"].unit == "N s/m"


def test_traces_hold_the_torques(data, robot):
    log = log_of(robot, 2)
    plots, text = torque_section(data).plots, torque_section(data).body
    for joint, unit in enumerate(joint.torque_unit for joint in data.joints):
        measured, low, high = torque_series(plots, joint)[0]["y"], log.tau[:, joint].min(), log.tau[:, joint].max()
        assert unpack(measured) == pytest.approx(log.tau[:, joint], abs=np.ptp(log.tau[:, joint]) / MAX_LEVEL)
        assert (measured["low"], measured["high"]) == (low, high)
        assert f"ranges from {format_number(low, 3)} to {format_quantity(high, unit)}" in text


def test_unscored_ends_do_not_scale_the_residual_axis(robot, estimate):
    log = log_of(robot, 2)
    tau = log.tau.copy()
    tau[0] += 1e4
    data = collect_report_data(estimate, [replace(log, tau=tau)])
    prediction, plots = data.logs[0].prediction, torque_section(data).plots
    largest = np.abs(prediction.residual[prediction.scored]).max(axis=0)
    for joint, error in enumerate(largest):
        assert np.abs(unpack(torque_series(plots, joint)[2]["y"])).max() <= 1.001 * error < 100


def test_histograms_and_coverage_count_all_rows(data):
    histograms, coverage = residual_section(data).plots, excitation_section(data).plots
    for k in range(len(data.joints)):
        bars = histograms[f"histogram-{k}"]["panes"][0]["series"][0]
        inside = float((np.array(bars["y"]) * np.diff(bars["x"])).sum())
        assert 0.99 < inside <= 1 + 1e-4
        rows = coverage[f"coverage-{k}"]["panes"][0]["series"][0]["rows"]
        assert any(cell != "0" for row in rows for cell in row)
        assert len({len(row) for row in rows}) == 1


def test_other_estimates_and_the_prior_are_validated_on_the_same_rows(data, robot):
    names = [column.name for column in data.comparison]
    assert names == ["this estimate", "ordinary", "prior"]
    ordinary = mindyn.validate(estimate_of(robot, weights="ordinary"), log_of(robot, 2)).error
    assert data.comparison[1].total == ordinary.total
    assert data.comparison[0].total == data.verdict.total


def test_pages_are_reproducible(data):
    assert build_page(data) == build_page(data)


def test_a_report_without_logs_mentions_it(estimate):
    text = build_page(collect_report_data(estimate))
    assert "No held-out log was given" in text
    assert 'id="torque"' not in text
    assert 'id="parameters"' in text


class Inventory(HTMLParser):
    """Collect tags, identifiers and external references."""

    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.outside = [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        links = [given[name] for name in ("src", "href", "action", "data") if name in given]
        self.outside += [link for link in links if not link.startswith("#")]


def test_the_file_loads_nothing(data):
    text = build_page(data)
    parser = Inventory()
    parser.feed(text)
    assert parser.outside == []
    bundle = files("mindyn.output.view").joinpath("assets", "three.js").read_text(encoding="utf-8")
    assert text.count(bundle) == 1
    own = text.replace(bundle, "")  # three.js names namespaces of XML; the policy below lets it load nothing
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\((?!#)", own)
    assert "default-src &#x27;none&#x27;" in text
    assert sorted(set(parser.ids)) == sorted(parser.ids), "an id occurs twice"


def test_names_from_files_cannot_become_markup(tmp_path):
    names = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>"]
    robot = arm("planar2", names)
    estimate = estimate_of(robot)
    mindyn.write_report(estimate, tmp_path / "r.html", validation_logs=log_of(robot, 2))
    text = (tmp_path / "r.html").read_text()
    parser = Inventory()
    parser.feed(text)
    assert "img" not in parser.tags
    assert text.count("<script") == text.count("</script>")
    assert "<script>alert" not in text
    assert "&lt;img src=x" in text


def test_numbers_cannot_end_their_script():
    hostile = {"name": "</script><script>alert(3)</script>", "low": 1.5}
    text = render_plot_numbers([Section("key", "title", Html(""), {"plot": hostile, "shared": {"time": [0.0]}})])
    assert text.count("</script") == 1
    inside = json.loads(text.split(">", 1)[1].rsplit("<", 1)[0])
    assert inside == {"shared": {"time": [0.0]}, "plot": hostile}


def test_parameter_states_follow_the_deviations(data, estimate):
    rows = zip(data.parameters, estimate.beta, estimate.deviations, estimate.uncertainty.half_widths, strict=True)
    for row, value, deviation, half in rows:
        if row.name in estimate.values.dropped:
            continue
        assert half > 1.95 * deviation
        ends = value - half, value + half
        assert (row.low, row.high) == pytest.approx(ends, abs=1e-4 * deviation)
        expected = "well determined" if deviation <= 0.1 * abs(value) else "poorly determined"
        assert row.state == ("not significant" if row.low < 0 < row.high else expected)
    unidentifiable = estimate.with_values(unidentifiable=("fc1",))
    states = {row.name: row.state for row in collect_report_data(unidentifiable).parameters}
    assert states["fc1"] == "unidentifiable"
    assert "The data do not determine fc1" in build_page(collect_report_data(unidentifiable))


def test_a_million_rows_of_six_joints_stay_small():
    count = 1_000_000
    rng = np.random.default_rng(0)
    torque = rng.standard_normal((count, 6))
    names = tuple("abcdef")
    samples = Samples(names, torque, torque, torque, torque, 1000.0, np.zeros(count, dtype=np.int64))
    prediction = TorquePrediction(samples, np.arange(count) / 1000, torque, 0.9 * torque, np.arange(count))
    plots = plot_torques([LogView("long", "held out", prediction)], ["N m"] * 6)
    packs = [asdict(plots["shared"]["time-0"]), *(curve["y"] for j in range(6) for curve in torque_series(plots, j))]
    assert sum(len(pack["data"]) for pack in packs) < 5 * MEBIBYTE
    for joint in range(6):
        measured = torque_series(plots, joint)[0]["y"]
        assert measured["low"] == torque[:, joint].min()
        assert measured["high"] == torque[:, joint].max()
    many = plot_torques([LogView(str(k), "training", prediction) for k in range(4)], ["N m"] * 6)
    texts = [torque_series(many, joint, log)[0]["y"]["data"] for log in range(4) for joint in range(6)]
    assert sum(map(len, texts)) < 2 * MEBIBYTE


def test_invalid_input_writes_no_file(tmp_path, estimate, robot):
    log = log_of(robot, 2)
    with raises(ExportError, Code.MISSING_FILE, str(tmp_path / "none")):
        mindyn.write_report(estimate, tmp_path / "none" / "r.html")
    motion = replace(trajectories_of(log, log.q), measured=log.q[:, :2], simulated=log.q[:, :2])
    with raises(InputError, Code.WRONG_SHAPE, "motion"):
        mindyn.write_report(estimate, tmp_path / "r.html", motion=motion)
    with raises(InputError, Code.DISAGREEMENT, "puma560"):
        mindyn.write_report(estimate, tmp_path / "r.html", prior=mindyn.load_robot("puma560"))
    assert list(tmp_path.iterdir()) == []


def test_feasibility_answers_are_shown_with_their_witness(data):
    text = build_page(data)
    for answer in ANSWERS:
        assert answer.reason in text
    assert "link2" in text
    assert format_quantity(2.5, "kg") in text


def test_the_command_is_shown_as_typed(data):
    assert ">mindyn identify scara &#x27;run 1.csv&#x27;<" in provenance_section(data).body


def test_a_parallelogram_is_reported_by_its_primary_joints():
    robot = arm("parallelogram_planar")
    samples = smooth_samples(robot, 1500)
    log = log_from_arrays(samples.joint_names, np.arange(1500) / 200.0, samples.q, samples.tau, samples.qd, samples.qdd)
    estimate = mindyn.identify(robot, log, mindyn.LeastSquares(), EquationSettings(AS_LOGGED))
    data = collect_report_data(estimate, [log], [log])
    assert tuple(joint.name for joint in data.joints) == robot.primary_names
    n = robot.joint_count
    assert count_plots(data) == {"friction": n, "histogram": n, "coverage": n, "torque": 2 * n}
    assert "joint_crank" in build_page(data)
    assert collect_report_data(estimate).verdict.rows == 1500


def test_one_joint_is_singular():
    data = collect_report_data(estimate_of(replace(arm("planar2"), drives=()).lock({"joint2": 0.5})))
    assert "1 joint," in build_page(data)
    assert "1 joints" not in build_page(data)


def test_friction_is_given_at_low_and_at_peak_speed(robot):
    smooth = estimate_of(robot, treated={"friction": Friction("tanh", 0.01)})
    data = collect_report_data(smooth, training_logs=[log_of(robot, 1)])
    section = friction_section(data)
    curve = compute_friction(data)[0].curve
    speed, torque = curve.speed.tolist(), curve.torque.tolist()
    slow = min((k for k, u in enumerate(speed) if u >= 0.1 * speed[-1]), key=speed.__getitem__)
    for k in (slow, -1):
        assert f"{format_quantity(torque[k], 'N m')} at {format_quantity(speed[k], 'rad/s')}" in section.body


def test_geometry_notes_are_listed_once(robot):
    tilted = replace(robot, gravity=robot.gravity + np.array([1e-4, 0.0, 0.0]))
    notes = list_notes(estimate_of(tilted))
    assert any("from being parallel to gravity" in note for note in notes)
    assert len(set(notes)) == len(notes)


def test_a_given_validation_is_not_computed_again(robot, estimate, monkeypatch):
    """Check that a report with a given validation is the same, and that only the training log is predicted."""
    other, training = log_of(robot, 2), log_of(robot, 1)
    verdict = mindyn.validate(estimate, other)
    expected = build_page(collect_report_data(estimate, [other], [training]))
    asked, predict = [], type(estimate).predict
    monkeypatch.setattr(type(estimate), "predict", lambda *given: asked.append(given[0]) or predict(*given))
    assert build_page(collect_report_data(estimate, [other], [training], validation=verdict)) == expected
    assert sum(predicted is estimate for predicted in asked) == 1
    with raises(InputError, Code.DISAGREEMENT, "validation"):
        collect_report_data(estimate, [other, other], validation=verdict)
