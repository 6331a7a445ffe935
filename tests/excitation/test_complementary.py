"""Motions that complement each other: the criterion is that of all logs together, by stacked regressors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli.program import mindyn_program
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

import mindyn
from mindyn.foundation.errors import Code
from mindyn.kernels.model import compile_model
from mindyn.motions import design_motions
from mindyn.regression.regressor import with_estimated_drives

NOISE = 20.0
LIMITS = "lower = -2.0\nupper = 2.0\nvelocity = 1.2\neffort = 4000.0\n"


def designed(count, *, with_drives=True):
    robot = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=1.2, effort=4000.0)
    search = mindyn.SearchSettings(1)
    log = mindyn.ExpectedLog(noise=NOISE, with_drives=with_drives)
    return design_motions(robot, count, seconds=6.0, limits=limits, log=log, search=search)


@pytest.mark.parametrize("drives", [True, False])
def test_the_second_motion_maximises_the_sum_of_the_information(drives):
    robot = mindyn.load_robot("planar2")
    first, second = designed(2, with_drives=drives)
    robot = with_estimated_drives(robot) if drives else robot
    model = compile_model(robot, with_drives=drives)
    stacked = []
    for design in (first, second):
        q, qd, qdd, _ = design.sample(100.0)
        stacked.append(model.regressor(q, qd, qdd).reshape(-1, len(design.prediction.names)) / NOISE)
    whole = np.vstack(stacked)
    assert_close(second.criteria["D"], -np.linalg.slogdet(whole.T @ whole)[1] / whole.shape[1], SAME_ALGEBRA)
    twice = first.criteria["D"] - np.log(2)
    assert second.criteria["D"] < twice, "a second, other motion determines more than the same one again"
    assert (second.prediction.deviations < first.prediction.deviations).all()


def test_one_motion_is_that_of_design_motion_and_none_is_rejected():
    (alone,) = designed(1)
    assert np.array_equal(alone.motion.coefficients, designed(2)[0].motion.coefficients)
    with raises(mindyn.MindynError, Code.OUT_OF_RANGE):
        designed(0)


def test_the_command_writes_a_folder_for_each_motion(tmp_path):
    (tmp_path / "limits.toml").write_text(LIMITS)
    words = ("excite", "planar2", "--seconds", "6", "--starts", "1", "--limits", tmp_path / "limits.toml")
    done = mindyn_program(*words, "--motions", "2", "--json", "--out", tmp_path / "both")
    assert done.code == 0, done.err
    printed = json.loads(done.out)["motions"]
    written = [json.loads((tmp_path / "both" / f"motion{k}" / "motion.json").read_text()) for k in (1, 2)]
    assert [entry["criteria"] for entry in printed] == [entry["criteria"] for entry in written]
    file = mindyn_program(*words, "--motions", "2", "--out", tmp_path / "both.csv")
    assert file.code == 1
    assert "needs a folder" in file.err
