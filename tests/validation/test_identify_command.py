"""`mindyn identify`: the simulated log of a PUMA's first three joints with noise and friction, from files to files."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import polars as pl
import pytest
import typer
from estimators.recovered import smooth_samples
from raising import raises
from typer.testing import CliRunner

import mindyn
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.identify_command import identify
from mindyn.cli.runs import require_held_out
from mindyn.foundation.errors import Code, ExportError, InputError, RobotFileError
from mindyn.identification.estimators.estimate import load_estimate
from mindyn.logs.log import SourceFile
from mindyn.logs.log_errors import LogError
from mindyn.regression.gathered_log import sources_of
from mindyn.regression.regressor import with_estimated_drives
from mindyn.regression.settings import EquationSettings

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


def shoulder():
    """The PUMA with its wrist locked: a third of the work of all six."""
    return mindyn.load_robot("puma560").lock({"joint4": 0.0, "joint5": 0.0, "joint6": 0.0})


@pytest.fixture
def logs(tmp_path):
    robot = with_estimated_drives(shoulder())
    mindyn.write_toml(shoulder(), tmp_path / "whole.toml")
    for seed in (1, 2):
        samples = smooth_samples(robot, 2400, seed)
        noise = 0.05 * np.random.default_rng(seed).standard_normal(samples.tau.shape)
        columns = {f"q{j + 1}": samples.q[:, j] for j in range(3)}
        columns |= {f"tau{j + 1}": (samples.tau + noise)[:, j] for j in range(3)}
        pl.DataFrame(columns).write_parquet(tmp_path / f"run{seed}.parquet")
        (tmp_path / f"run{seed}.parquet.toml").write_text(SIDECAR)
    return tmp_path


def test_identify_writes_everything_needed_to_repeat_it(logs, arm):
    app = typer.Typer()
    app.command()(identify)
    given = [
        arm,
        str(logs / "run1.parquet"),
        "--validate",
        str(logs / "run2.parquet"),
        "--out",
        str(logs / "out"),
    ]
    result = CliRunner().invoke(app, [*given, "--json", "--verbose"], catch_exceptions=False)
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed["validation"]["total"] < 0.1
    columns = printed["parameters"]
    units = dict(zip(columns["name"], columns["unit"], strict=True))
    assert (units["Izz1R"], units["mcx2R"], units["fc1"]) == ("kg m^2", "kg m", "N m")
    for state, low, value, high in zip(*(columns[key] for key in ("state", "low", "value", "high")), strict=True):
        # A value that physics holds at its edge is an end of its interval; so may be the zero of a dropped parameter.
        assert state in {"estimated", "dropped"}
        assert low <= value <= high
        assert low < high
    assert "estimated" in columns["state"]
    run = json.loads((logs / "out" / "run.json").read_text())
    assert {"command", "inputs", "versions", "settings", "finished"} <= set(run)
    assert all(len(item["sha256"]) == 64 for item in run["inputs"])
    table = pl.read_parquet(logs / "out" / "parameters.parquet")
    estimate = load_estimate(logs / "out" / "estimate.json")
    assert table["name"].to_list() == list(estimate.names)
    assert "read" in result.stderr
    assert "cross-validated error" in result.stderr


def test_a_streamed_log_gives_the_same_parameters(logs, arm):
    app = typer.Typer()
    app.command()(identify)
    settings = logs / "conditioning.toml"
    settings.write_text("motion_hz = 20.0\ndelay_s = 0.0\n")
    given = [arm, str(logs / "run1.parquet"), "--conditioning", str(settings), "--json"]
    values = []
    for more in ([], ["--stream"]):
        printed = json.loads(CliRunner().invoke(app, [*given, *more], catch_exceptions=False).stdout)
        values.append(printed["parameters"]["value"])
    np.testing.assert_allclose(*values, rtol=1e-6, atol=1e-9)


def test_a_log_that_is_trained_on_is_not_held_out(logs):
    same = logs / ".." / logs.name / "run1.parquet"
    copy = logs / "copy.parquet"
    copy.write_bytes(same.read_bytes())
    copy.with_name("copy.parquet.toml").write_text(SIDECAR)
    for seen in (same, copy):
        for stream in (False, True):
            with raises(InputError, Code.DISAGREEMENT, seen.name):
                identify(
                    str(logs / "whole.toml"),
                    [logs / "run1.parquet"],
                    held_out=[logs / "run2.parquet", seen],
                    stream=stream,
                )


@pytest.mark.parametrize("stream", [False, True])
def test_other_rows_of_a_training_file_are_held_out(logs, stream):
    robot, source = shoulder(), logs / "run1.parquet"
    opened = (mindyn.scan_log if stream else mindyn.read_log)(source, robot, metadata={"rows": [0, 1500]})
    trained = sources_of(opened)
    rest, shared = (mindyn.read_log(source, robot, metadata={"rows": rows}) for rows in ([1500, 2400], [1499, 2400]))
    require_held_out(trained, [rest], "")
    for log in (shared, mindyn.read_log(source, robot)):
        with raises(InputError, Code.DISAGREEMENT, "run1.parquet"):
            require_held_out(trained, [rest, log], "")
    (saved,) = json.loads(json.dumps([asdict(source) for source in trained]))
    assert SourceFile.from_dict(saved) == trained[0]
    assert SourceFile.from_dict({"path": "a.csv", "sha256": "0"}) == SourceFile("a.csv", "0", None)


def test_torques_of_the_wrong_sign_are_reported(logs):
    """Values that no arm has explain them as well as the right ones; the answer must not be that all is well."""
    table = pl.read_parquet(logs / "run1.parquet")
    table.with_columns(-pl.col(f"tau{j}") for j in range(1, 4)).write_parquet(logs / "run1.parquet")
    app = typer.Typer()
    app.command()(identify)
    result = CliRunner().invoke(app, [str(logs / "whole.toml"), str(logs / "run1.parquet")], catch_exceptions=False)
    assert result.exit_code == ExitCode.NO
    assert "The values are not physically consistent." in result.stdout
    (line,) = [line for line in result.stderr.splitlines() if line.startswith(("error ", "warning "))]
    assert line.startswith("warning  every torque has the opposite sign")


DRIVES = """
[[drive]]
joint = "joint3"
ratio = 50.0
coupling = { joint2 = 20.0 }
side = "motor"
"""


def invoke(*given):
    app = typer.Typer()
    app.command()(identify)
    return CliRunner().invoke(app, [*map(str, given), "--json"], catch_exceptions=False)


@pytest.fixture
def arm(tmp_path):
    """The robot's file without inertials: the data decide every value."""
    robot = shoulder()
    bare = replace(robot, links=tuple(replace(link, phi=None) for link in robot.links), drives=())
    mindyn.write_toml(bare, tmp_path / "arm.toml")
    return str(tmp_path / "arm.toml")


@pytest.fixture
def fixed(logs):
    """Settings that leave nothing to choose but the friction."""
    (logs / "conditioning.toml").write_text("motion_hz = 20.0\ndelay_s = 0.0\n")
    return logs / "conditioning.toml"


def test_drives_come_from_a_file(logs, arm, fixed):
    (logs / "drives.toml").write_text(DRIVES)
    given = (arm, logs / "run1.parquet", "--conditioning", fixed, "--drives", logs / "drives.toml")
    result = invoke(*given, "--out", logs / "out", "--no-report")
    assert "fvj3" in json.loads(result.stdout)["parameters"]["name"]  # friction behind the coupling
    drive = {value.joint: value for value in load_estimate(logs / "out" / "estimate.json").robot.drives}["joint3"]
    assert (drive.ratio, dict(drive.coupling), drive.side) == (50.0, {"joint2": 20.0}, "motor")
    run = json.loads((logs / "out" / "run.json").read_text())
    assert any(item["path"].endswith("drives.toml") for item in run["inputs"])
    (logs / "drives.toml").write_text(DRIVES.replace("ratio", "ration"))
    with raises(RobotFileError, Code.UNKNOWN_NAME, "ration"):
        invoke(*given)
    (logs / "drives.toml").write_text(f"{DRIVES}{DRIVES}")
    with raises(RobotFileError, Code.DUPLICATE, "joint3"):
        invoke(*given)


def test_an_earlier_run_stays_complete_until_the_new_one_is(logs, arm, fixed, monkeypatch):
    (logs / "out").mkdir()
    earlier = {"estimate.json": "earlier", "validation.json": "earlier", "report.html": "earlier"}
    for name, text in earlier.items():
        (logs / "out" / name).write_text(text)

    def no_space(*_, **__):
        raise ExportError("no space left")

    monkeypatch.setattr("mindyn.output.report.write_report.write_report", no_space)
    given = (arm, logs / "run1.parquet", "--conditioning", fixed, "--out", logs / "out")
    with raises(ExportError, Code.NOT_WRITABLE, ""):
        invoke(*given)
    assert {value.name: value.read_text() for value in (logs / "out").iterdir()} == earlier
    invoke(*given, "--no-report")
    assert {item.name for item in (logs / "out").iterdir()} == {"estimate.json", "parameters.parquet", "run.json"}


def test_unlogged_joints_are_locked(logs, arm, fixed):
    table = pl.read_parquet(logs / "run1.parquet").drop("q3", "tau3")
    table.write_parquet(logs / "two.parquet")
    (logs / "two.parquet.toml").write_text(SIDECAR)
    given = (arm, logs / "two.parquet", "--conditioning", fixed)
    with raises(LogError, Code.UNKNOWN_NAME, "q3"):
        invoke(*given)
    names = json.loads(invoke(*given, "--lock", "joint3=0.5").stdout)["parameters"]["name"]
    assert "fv2" in names
    assert "fv3" not in names
    with raises(InputError, Code.WRONG_FORMAT, "--lock"):
        invoke(*given, "--lock", "joint3")


def test_a_fault_is_one_finding(logs, arm, fixed):
    table = pl.read_parquet(logs / "run1.parquet")
    (logs / "odd.parquet.toml").write_text(SIDECAR)
    for spoiled, finding in (
        (pl.lit(2.0).alias("tau3"), "error    the torque of joint3 never changes"),
        (-pl.col("tau1"), "warning  the torque of joint joint1 may have the wrong sign"),
    ):
        table.with_columns(spoiled).write_parquet(logs / "odd.parquet")
        result = invoke(arm, logs / "odd.parquet", "--conditioning", fixed).stderr.splitlines()
        (shown,) = [line for line in result if line.startswith(("error", "warning"))]
        assert shown.startswith(finding)
        assert result[result.index(shown) + 1].startswith(" " * 9)  # the remedy


def test_the_end_of_a_log_is_held_out(logs, arm, fixed):
    """As good as two logs: trained on the first rows alone, validated on the others."""
    given = (arm, logs / "run1.parquet", "--conditioning", fixed)
    result = json.loads(invoke(*given, "--hold-out", 0.25).stdout)
    robot = mindyn.load_robot(arm)
    log = mindyn.read_log(logs / "run1.parquet", robot)
    settings = mindyn.Conditioning(motion_hz=20.0, delay_s=0.0)
    alone = mindyn.identify(robot, log.between(0, 1800), settings=EquationSettings.automatic(settings))
    assert result["parameters"]["value"] == alone.beta.tolist()
    assert result["validation"] == mindyn.validate(alone, log.between(1800, 2400)).to_dict()
    for more, code, subject in (
        ((1.0,), Code.OUT_OF_RANGE, "--hold-out"),
        ((0.2, "--stream"), Code.DISAGREEMENT, "--stream"),
        ((0.2, "--validate", "x"), Code.DISAGREEMENT, "--validate"),
    ):
        with raises(InputError, code, subject):
            invoke(*given, "--hold-out", *more)


def test_a_log_counts_once(logs):
    with raises(InputError, Code.DUPLICATE, str(logs / ".." / logs.name / "run1.parquet")):
        invoke(logs / "whole.toml", logs / "run1.parquet", logs / ".." / logs.name / "run1.parquet")
