"""`identify(..., gpu=True)`: the CPU's estimate, with the device's steps and program on the CPU in the GPU's place."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from closeness import DERIVATIVE, PUBLISHED_FILE, assert_close
from raising import raises
from typer.testing import CliRunner

import mindyn
from mindyn.cli.main import app
from mindyn.errors import Code, MissingExtraError
from mindyn.regression import rows
from mindyn.regression.device_factors import stand_in_factors
from mindyn.regression.friction import Friction

WITHOUT_CUPY = bool(subprocess.run([sys.executable, "-c", "import cupy"], capture_output=True).returncode)
SETTINGS = mindyn.EquationSettings(
    mindyn.Conditioning(position_cutoff_hz=20.0, delay_s=0.0, rate_hz=100.0), 8.0, 1, Friction("stop", 0.01)
)


@pytest.fixture(scope="module")
def arm_and_log():
    robot = mindyn.load_robot("planar2")
    rng, t = np.random.default_rng(0), np.arange(3000)[:, None] / 100.0
    w = np.array([2.0, 3.3])
    q, qd, qdd = np.sin(t * w), w * np.cos(t * w), -(w**2) * np.sin(t * w)
    tau = mindyn.compile_model(robot, drives=True).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.1, q.shape)
    return robot, mindyn.log_from_arrays(robot.joint_names, t[:, 0], q, tau)


def test_the_estimate_is_the_cpu_s(arm_and_log, monkeypatch):
    robot, log = arm_and_log
    created = []
    monkeypatch.setattr(rows, "gpu_factors", lambda: created.append(stand_in_factors()) or created[-1])
    theirs, ours = (mindyn.identify(robot, log, mindyn.LeastSquares(), SETTINGS, gpu=gpu) for gpu in (False, True))
    assert created[-1]._made is not None, "the device's rows were not asked for"
    assert_close(ours.predict_log(log), theirs.predict_log(log), PUBLISHED_FILE)
    assert (np.abs(ours.beta - theirs.beta) <= 1e-6 * theirs.deviations).all()
    assert_close(ours.deviations, theirs.deviations, DERIVATIVE)


def test_what_is_missing_is_said_before_anything_is_chosen(arm_and_log, monkeypatch, tmp_path):
    robot, log = arm_and_log
    message = []
    if WITHOUT_CUPY:
        with raises(MissingExtraError, Code.MISSING_PACKAGE, "cupy"):
            mindyn.identify(robot, log, gpu=True, progress=message.append)
        path = tmp_path / "log.csv"
        path.write_text("t\n")
        ran = CliRunner().invoke(app, ["identify", "planar2", str(path), "--gpu"])
        assert isinstance(ran.exception, MissingExtraError)
    monkeypatch.setattr(rows, "gpu_factors", stand_in_factors)
    assert message == []
    ran = CliRunner().invoke(app, ["identify", "planar2", "log.csv", "--gpu", "--stream"])
    assert "exclude each other" in str(ran.exception)
