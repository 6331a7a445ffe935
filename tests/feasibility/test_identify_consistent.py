"""From logs to a consistent arm with selected settings, in Python and on the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import typer
from estimators.recovered import smooth_samples
from feasibility.arms_with_parts import URDF
from raising import raises
from typer.testing import CliRunner

from mindyn import Conditioning, EquationSettings, PhysicallyConsistent, identify, load_robot, read_log
from mindyn.cli.identify_command import identify as identify_command
from mindyn.foundation.errors import Code, InputError
from mindyn.identification.feasibility.checks.consistent_values import check_consistent
from mindyn.regression.regressor import with_estimated_drives

SIDECAR = """
side = "joint"
rate_hz = 200.0
[columns]
position = "q{i}"
torque = "tau{i}"
[units]
position = "rad"
torque = "N m"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs")
    (path / "arm.urdf").write_text(URDF)
    robot = with_estimated_drives(load_robot(path / "arm.urdf"))
    truth = replace(robot, drives=tuple(replace(d, viscous=0.4, coulomb=0.3, offset=0.1) for d in robot.drives))
    samples = smooth_samples(truth, 1600, 3)
    noise = 0.2 * np.random.default_rng(0).standard_normal(samples.tau.shape)
    columns = {f"q{j + 1}": samples.q[:, j] for j in range(2)}
    columns |= {f"tau{j + 1}": (samples.tau + noise)[:, j] for j in range(2)}
    pl.DataFrame(columns).write_parquet(path / "run.parquet")
    (path / "run.parquet.toml").write_text(SIDECAR)
    return path


def test_settings_of_identify_are_used_and_reported(folder):
    robot = load_robot(folder / "arm.urdf")
    log = read_log(folder / "run.parquet", robot)
    plain = identify(robot, log)
    estimate = identify(robot, log, PhysicallyConsistent(covariance="correlated"))
    assert check_consistent(estimate).holds is True
    assert estimate.settings == plain.settings
    assert estimate.data.cross_validated == plain.data.cross_validated
    assert estimate.provenance.notes["tried"]
    assert estimate.predict_log(log).shape == (len(log), 2)


def test_it_is_an_estimator_like_others(folder):
    robot = load_robot(folder / "arm.urdf")
    log = read_log(folder / "run.parquet", robot)
    fit = PhysicallyConsistent(prior_weight=1e-3, kinds="all")
    estimate = identify(robot, log, fit, EquationSettings(Conditioning(motion_hz=20.0), 10.0, 2))
    assert check_consistent(estimate).holds is True
    assert "prior" in estimate.status


def test_a_prior_of_another_arm_raises_before_any_fit(folder):
    robot = load_robot(folder / "arm.urdf")
    log, result = read_log(folder / "run.parquet", robot), []
    with raises(InputError, Code.DISAGREEMENT, "puma560"):
        identify(robot, log, PhysicallyConsistent(prior=load_robot("puma560")), progress=result.append)
    assert result == []


def test_the_command_identifies_a_consistent_arm(folder):
    app = typer.Typer()
    app.command()(identify_command)
    given = [
        str(folder / "arm.urdf"),
        str(folder / "run.parquet"),
        "--consistent",
        "--out",
        str(folder / "out"),
        "--json",
    ]
    result = CliRunner().invoke(app, given, catch_exceptions=False)
    assert result.exit_code == 0
    assert "physically consistent" in json.loads(result.stdout)["status"]
    item = CliRunner().invoke(app, [*given[:2], "--prior", given[0]])
    assert item.exit_code != 0
    assert CliRunner().invoke(app, [*given[:2], "--no-offsets"]).exit_code != 0
    bare = CliRunner().invoke(app, [*given, "--no-offsets"], catch_exceptions=False)
    assert "fo1" in json.loads(bare.stdout)["settings"]["dropped"]
