"""An experiment computes what it has from its logs once, and the same as separate calls do."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.logs import pipeline
from mindyn.regression import experiment as module

T = np.arange(1500) / 100


@pytest.fixture(scope="module")
def robot():
    return mindyn.load_robot("planar2")


@pytest.fixture(scope="module")
def log(robot):
    q = np.column_stack([np.sin(T) + 0.3 * np.sin(3.1 * T), np.cos(1.7 * T) + 0.2 * np.sin(2.3 * T)])
    qd, qdd = np.gradient(q, T, axis=0), np.gradient(np.gradient(q, T, axis=0), T, axis=0)
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    noise = np.random.default_rng(0).standard_normal(tau.shape)
    return mindyn.log_from_arrays(robot.joint_names, T, q, tau + 0.02 * noise)


@pytest.fixture
def counts(monkeypatch):
    """Count conditionings and searches for a period, by their settings."""
    counted = Counter()
    condition, timeline = module.condition, module.build_timeline

    def count_conditioning(robot, logs, conditioning):
        counted["conditioning", conditioning, sum(map(len, logs))] += 1
        return condition(robot, logs, conditioning)

    def count_timeline(*arguments):
        counted["timeline"] += 1
        return timeline(*arguments)

    monkeypatch.setattr(module, "condition", count_conditioning)
    monkeypatch.setattr(module, "build_timeline", count_timeline)
    monkeypatch.setattr(pipeline, "condition", None)  # nothing else conditions the rows of a log
    return counted


def test_given_settings_condition_each_row_once(robot, log, counts):
    settings = mindyn.EquationSettings(mindyn.Conditioning(motion_hz=8.0), friction=mindyn.Friction())
    mindyn.identify(robot, log, mindyn.LeastSquares(), settings)
    assert sum(count for key, count in counts.items() if key[0] == "conditioning") == 1
    assert counts["timeline"] == 1


def test_automatic_settings_condition_rows_once_for_each_conditioning_and_search_one_period(robot, log, counts):
    mindyn.identify(robot, log)
    assert not {key: count for key, count in counts.items() if key[0] == "conditioning" and count > 1}
    assert counts["timeline"] == 1


def test_samples_and_equations_are_those_of_the_separate_functions(robot, log):
    experiment, settings = mindyn.Experiment(robot, [log]), mindyn.EquationSettings(mindyn.Conditioning())
    samples = experiment.samples(settings.conditioning).samples
    np.testing.assert_array_equal(samples.qdd, mindyn.condition(robot, log, settings.conditioning).samples.qdd)
    rows, alone = experiment.equations(settings), mindyn.build_rows(robot, log, settings)
    np.testing.assert_array_equal(rows.information.stacked(np.ones(2))[0], alone.information.stacked(np.ones(2))[0])
    assert experiment.samples(settings.conditioning) is experiment.samples(settings.conditioning)
    assert experiment.regressor(settings).names == rows.regressor.names


def test_an_experiment_travels_without_its_samples_and_serves_threads(robot, log):
    experiment = mindyn.Experiment(robot, log)
    before = len(pickle.dumps(experiment))
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: experiment.samples(), range(8)))
    assert all(result is results[0] for result in results)
    assert len(pickle.dumps(experiment)) == before
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(experiment)).samples().samples.q, results[0].samples.q)


def test_rows_of_a_stream_are_not_kept(robot, log, tmp_path):
    np.savez(tmp_path / "run.npz", time=log.time, q=log.q, tau=log.tau)
    scan = mindyn.scan_log(
        tmp_path / "run.npz",
        robot,
        columns={"time": "time", "position": "q", "torque": "tau"},
        side="joint",
        units={"time": "s", "position": "rad", "torque": "N m"},
        metadata={"joints": list(robot.joint_names)},
    )
    experiment = mindyn.Experiment(robot, scan)
    assert experiment.is_streamed
    with raises(InputError, Code.UNSUPPORTED, "logs"):
        _ = experiment.logs_in_memory
    assert len(experiment.excerpt.logs_in_memory[0]) == len(log)
    assert sum(map(len, experiment.stream())) == len(experiment.excerpt.samples().samples)
    assert "streamed" in repr(experiment)


def test_a_constant_torque_is_zero(robot, log):
    dead = replace(log, tau=np.column_stack([log.tau[:, 0], np.full(len(log), 0.7)]))
    (kept,) = mindyn.Experiment(robot, dead).logs
    assert not kept.tau[:, 1].any()
    assert kept.tau[:, 0].any()


@pytest.mark.parametrize(
    ("logs", "code"), [([], Code.MISSING_VALUE), ("run.csv", Code.WRONG_TYPE), ([3], Code.WRONG_TYPE)]
)
def test_what_is_not_a_log_is_rejected(robot, logs, code):
    with raises(InputError, code, "logs"):
        mindyn.Experiment(robot, logs)


def test_an_excerpt_has_a_bounded_number_of_rows(robot, log, monkeypatch):
    monkeypatch.setattr(module, "EXCERPT_ROWS", 800)
    experiment = mindyn.Experiment(robot, log)
    excerpt = experiment.excerpt
    assert excerpt is not experiment
    assert sum(map(len, excerpt.logs_in_memory)) <= 800


def test_a_plot_shows_every_signal_as_logged_and_as_used(robot, log, tmp_path):
    other = replace(log, name="second <log>")
    page = mindyn.Experiment(robot, [log, other]).plot(mindyn.Conditioning(motion_hz=10.0))
    text = page.save(tmp_path / "data.html").read_text()
    plots = json.loads(re.search(r'id="plots">(.*?)</script>', text).group(1))
    figures = [value for key, value in plots.items() if key.startswith("signals-")]
    assert len(figures) == 2 * len(log.joint_names)
    for drawn in figures:
        assert [pane["y"]["label"] for pane in drawn["panes"]] == ["position", "speed", "acceleration", "torque"]
        for pane in drawn["panes"]:
            assert pane["series"][-1]["name"].endswith("as used")
            assert {series["x"] for series in pane["series"]} <= set(plots["shared"])
    assert "second &lt;log&gt;" in text
    assert "<log>" not in text
