"""Sound logs of a PUMA 560 have no delay, and a log whose torque lacks gravity is reported."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from typer.testing import CliRunner

import mindyn
from mindyn.cli.main import app
from mindyn.foundation.findings import Kind, Severity


@cache
def record_puma(seed, folder):
    path = folder / f"s{seed}.csv"
    words = ["simulate", "puma560", "--out", str(path), "--seconds", "20", "--torque-noise", "0.5"]
    result = CliRunner().invoke(app, [*words, "--noise-at", "joint", "--seed", str(seed)])
    assert result.exit_code == 0, result.output
    robot = mindyn.load_robot("puma560")
    log = mindyn.read_log(path, robot)
    return robot, log.take(slice(0, 7 * len(log) // 10))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4])
def test_a_sound_log_is_not_rejected_for_a_delay(seed, tmp_path_factory):
    robot, log = record_puma(seed, tmp_path_factory.getbasetemp())
    estimate = mindyn.identify(robot, log)
    assert not [finding for finding in estimate.findings if finding.severity is Severity.ERROR]
    assert Kind.DELAYED_TORQUE not in {finding.kind for finding in estimate.findings}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 4])
def test_a_torque_without_gravity_is_reported(seed, tmp_path_factory):
    robot, log = record_puma(seed, tmp_path_factory.getbasetemp())
    compensated = replace(log, tau=log.tau - mindyn.compile_model(robot).gravity(log.q))
    findings = mindyn.identify(robot, compensated).findings
    assert Kind.ABSENT_GRAVITY in {finding.kind for finding in findings}
