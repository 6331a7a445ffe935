"""Equations in blocks: they add up to those of all rows, and those of any log can be left out.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from equations import equations
from estimators.recovered import exact_samples, smooth_samples
from messages import messages
from raising import raises
from robots import random_robot, with_random_drives

from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind, info
from mindyn.identification.estimators.fit_summary import data_summary, joint_residuals
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import SourceFile, log_from_arrays
from mindyn.logs.pipeline import condition, condition_stream
from mindyn.regression.build_rows import build_rows
from mindyn.regression.friction import Friction
from mindyn.regression.gather_blocks import BLOCKS
from mindyn.regression.information import add_information
from mindyn.regression.regressor import build_regressor
from mindyn.regression.row_blocks import STOP_ROWS, _dependence_rows, gather
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings

SETTINGS = Conditioning(rate_hz=200.0, stamps="uniform", motion_hz=20.0, edge_s=0.2, delay_s=0.0)
EQUATION_SETTINGS = {
    "plain": EquationSettings(SETTINGS),
    "filtered": EquationSettings(SETTINGS, 5.0, 3),
    "stop": EquationSettings(SETTINGS, 8.0, 1, Friction("stop", 0.05)),
}


@pytest.fixture(scope="module")
def robot():
    return with_random_drives(random_robot(2, joints=2, tree=False), 2)


def draw_log(robot, rows, seed):
    samples = smooth_samples(robot, rows, seed)
    return log_from_arrays(samples.joint_names, np.arange(rows) / 200.0, samples.q, samples.tau)


@pytest.fixture(scope="module")
def logs(robot):
    return [draw_log(robot, 2000, 1), draw_log(robot, 900, 2), draw_log(robot, 3100, 3)]


def grams(information):
    """Return [Y | tau]^T [Y | tau] of every joint, which does not depend on signs and order of rows."""
    return np.concatenate([(factor.T @ factor).ravel() for factor in information.factors])


@pytest.mark.parametrize("name", EQUATION_SETTINGS)
def test_blocks_add_up_to_all_rows(robot, logs, name):
    equation_settings = EQUATION_SETTINGS[name]
    rows = build_rows(robot, logs, equation_settings)
    samples = condition(robot, logs, equation_settings.fit_conditioning).samples
    every = gather(
        rows.regressor, samples, cutoff_hz=equation_settings.equations_hz, decimation=equation_settings.keep_every
    )
    assert rows.information.counts == every.counts
    assert_close(grams(rows.information), grams(every), SAME_ALGEBRA)
    assert_close(grams(add_information(rows.folds(3))), grams(every), SAME_ALGEBRA)
    assert len(rows.folds(3)) == 3


@pytest.mark.parametrize("name", EQUATION_SETTINGS)
def test_a_log_can_be_excluded_afterwards(robot, logs, name):
    rows = build_rows(robot, logs, EQUATION_SETTINGS[name])
    others = build_rows(robot, [logs[0], logs[2]], EQUATION_SETTINGS[name])
    assert_close(
        grams(rows.select(block for block in rows.blocks if block.log != 1).information),
        grams(others.information),
        SAME_ALGEBRA,
    )


def test_blocks_tile_their_logs_and_are_small(robot, logs):
    rows = build_rows(robot, logs, EQUATION_SETTINGS["plain"])
    assert abs(len(rows.blocks) - BLOCKS) <= len(logs)
    for number in range(len(logs)):
        spans = [block.span for block in rows.blocks if block.log == number]
        assert [a for a, _ in spans] == [0, *(b for _, b in spans[:-1])]
    assert sum(b - a for a, b in (block.span for block in rows.blocks)) == rows.count
    assert len(pickle.dumps(rows.blocks[0])) < 20_000
    again = pickle.loads(pickle.dumps(rows.blocks))
    assert (grams(add_information([block.information for block in again])) == grams(rows.information)).all()


def test_a_long_stream_has_few_blocks_and_knows_its_logs(robot, logs):
    longer = [*logs, draw_log(robot, 250_000, 4)]
    stream = condition_stream(robot, longer, SETTINGS, block_rows=3000)
    rows = equations(robot, stream)
    assert_close(
        grams(rows.information),
        grams(equations(robot, condition(robot, longer, SETTINGS).samples).information),
        SAME_ALGEBRA,
    )
    numbers = [block.log for block in rows.blocks]
    assert numbers == sorted(numbers)
    assert set(numbers) == {0, 1, 2, 3}
    assert numbers.count(3) <= 2 * BLOCKS
    first = build_rows(robot, logs, EQUATION_SETTINGS["plain"])
    assert_close(
        grams(rows.select(block for block in rows.blocks if block.log != 3).information),
        grams(first.information),
        SAME_ALGEBRA,
    )


def test_blocks_along_a_line_hold_the_rows_of_their_places(robot, logs):
    """Places that go up and down a line twice in every log: a block has the rows of four segments of each."""
    rows = build_rows(robot, logs, EQUATION_SETTINGS["plain"])
    places = [np.abs((np.arange(len(log)) / len(log) * 4) % 2 - 1) for log in logs]
    created = rows.blocks_along(places, 1.0, 10)
    assert [block.phase for block in created] == pytest.approx(np.arange(0.05, 1, 0.1))
    assert_close(
        grams(add_information([block.information for block in created])), grams(rows.information), SAME_ALGEBRA
    )
    conditioned = condition(robot, logs, SETTINGS)
    place = np.concatenate([places[k][conditioned.rows[conditioned.logs == k]] for k in range(3)])
    assert created[3].information.counts == (int(((place >= 0.3) & (place < 0.4)).sum()),) * 2


def test_a_joint_at_rest_is_named_and_a_part_of_the_logs_may_have_it(robot):
    moving, resting = exact_samples(robot, 500, 1), exact_samples(robot, 500, 2)
    held = resting.q * np.array([1.0, 0.0])
    still = type(resting)(robot.joint_names, held, *(resting.qd, resting.qdd, resting.tau), 100.0, resting.segments)
    with raises(InputError, Code.NOT_IDENTIFIABLE, "joint2"):
        LeastSquares().fit(equations(robot, still))
    both = equations(robot, iter([moving, still]))
    assert both.information.counts == (1000, 1000)


def test_r_factors_alone_have_no_samples(robot):
    rows = equations(robot, exact_samples(robot, 300))
    bare = Rows.of_information(rows.regressor, rows.information)
    with raises(InputError, Code.MISSING_VALUE, "samples"):
        bare.samples()


def test_a_settings_is_saved_compared_and_rejected_while_open():
    equation_settings = EquationSettings(
        SETTINGS, 5.0, 3, Friction("tanh", 0.1, ("root",), ("joint1",)), "numeric", "stated"
    )
    assert EquationSettings.from_dict(equation_settings.to_dict()) == equation_settings
    assert hash(EquationSettings.from_dict(equation_settings.to_dict())) == hash(equation_settings)
    left_open = EquationSettings.automatic()
    assert EquationSettings.from_dict(left_open.to_dict()) == left_open
    assert not left_open.is_selected
    with raises(InputError, Code.MISSING_VALUE, "equations_hz"):
        left_open.filtering  # noqa: B018
    for wrong in ({"equations_hz": -1.0}, {"keep_every": 0}, {"friction": "sign"}, {"drive_parameters": "none"}):
        (name,) = wrong
        is_friction = name == "friction"
        code, subject = (Code.WRONG_TYPE, name) if is_friction else (Code.INVALID_VALUE, f"settings.{name}")
        with raises(InputError, code, subject):
            EquationSettings(**wrong)


def test_a_settings_is_chosen_when_nothing_is_open():
    assert EquationSettings(SETTINGS).is_selected
    assert EquationSettings(None).is_selected
    assert not EquationSettings(replace(SETTINGS, delay_s="auto")).is_selected
    for name in ("equations_hz", "keep_every", "friction"):
        assert not replace(EquationSettings(SETTINGS), **{name: "auto"}).is_selected


def test_the_stop_operator_reaches_back_and_other_directions_do_not(robot):
    reach = {
        item: _dependence_rows(build_regressor(robot, EquationSettings(friction=Friction(item, 0.05))), None, 200.0)
        for item in ("tanh", "stop")
    }
    assert reach == {"tanh": 0, "stop": STOP_ROWS}


def test_the_status_of_a_fit_summarizes_its_data(robot):
    """Root mean squares of torques, and thinning only where rows were left out."""
    samples = exact_samples(robot, 60, 3)
    rows = equations(robot, samples)
    residuals = joint_residuals(rows.information, np.zeros(rows.regressor.count))
    assert_close(
        np.array([residual.rms_torque for residual in residuals]), np.sqrt((samples.tau**2).mean(axis=0)), SAME_ALGEBRA
    )
    assert_close(
        np.array([residual.rms for residual in residuals]), np.sqrt((samples.tau**2).mean(axis=0)), SAME_ALGEBRA
    )
    assert "kept" not in data_summary(rows.information, rows.settings)
    assert "one of 3 kept" in data_summary(rows.information, EquationSettings(keep_every=3))


def test_rows_of_workers_equal_those_of_this_process(robot, logs):
    here = build_rows(robot, logs, EQUATION_SETTINGS["plain"])
    with ThreadPoolExecutor(1) as workers:
        there = build_rows(robot, logs, EQUATION_SETTINGS["plain"], executor=workers)
        assert there.information.counts == here.information.counts
    assert there.count == here.count == sum(block.span[1] - block.span[0] for block in here.blocks)
    assert messages(there) == messages(here)
    assert there.sources == here.sources


def test_rows_have_findings_about_dropped_parts_and_list_their_files(robot, logs):
    noted = [
        replace(log, findings=(info(Kind.FILE_CONTENT, f"note {k}"),), sources=(SourceFile(f"{k}.csv", "0"),))
        for k, log in enumerate(logs)
    ]
    rows = build_rows(robot, noted, EQUATION_SETTINGS["plain"])
    assert [finding.message for finding in rows.findings if finding.kind == Kind.FILE_CONTENT] == [
        "note 0",
        "note 1",
        "note 2",
    ]
    assert [source.path for source in rows.sources] == ["0.csv", "1.csv", "2.csv"]
    assert rows.count == len(rows.all_samples("a test"))
    samples = smooth_samples(robot, 300)
    plain = build_rows(robot, samples)
    assert plain.findings == ()
    assert (plain.sources, plain.count) == ((), 300)


@pytest.mark.parametrize(("cutoff_hz", "decimation"), [(5.0, 1), (None, 3), (5.0, 4)])
def test_streams_in_small_blocks_have_the_rows_of_the_whole(robot, logs, cutoff_hz, decimation):
    regressor, short = (
        build_regressor(robot, EquationSettings(drive_parameters="stated")),
        [log.take(slice(0, 700)) for log in logs],
    )
    how = {"cutoff_hz": cutoff_hz, "decimation": decimation}
    whole = gather(regressor, condition(robot, short, SETTINGS).samples, **how)
    parts = gather(regressor, condition_stream(robot, short, SETTINGS, block_rows=90), **how)
    assert parts.counts == whole.counts
    assert_close(grams(parts), grams(whole), 1e-8)
