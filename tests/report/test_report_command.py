"""`mindyn report` and `mindyn identify --out`: reports from files, and errors for wrong files."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from mesh_samples import arm as urdf
from mesh_samples import stl
from raising import raises
from reported_arms import arm, estimate_of, log_of
from typer.testing import CliRunner

from mindyn.cli.identify_command import RUN_FILES
from mindyn.cli.main import app
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.output.export.toml_writer import write_toml
from mindyn.robots.loading import load_robot

SIDECAR = """
side = "joint"
rate_hz = 200.0
[columns]
position = "q{i}"
velocity = "qd{i}"
acceleration = "qdd{i}"
torque = "tau{i}"
[units]
position = "rad"
velocity = "rad/s"
acceleration = "rad/s^2"
torque = "N m"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with an arm, two logs and a run."""
    directory = tmp_path_factory.mktemp("files")
    robot = arm("planar2")
    write_toml(robot, directory / "arm.toml")
    for seed in (1, 2):
        log = log_of(robot, seed)
        columns = {f"{name}{j + 1}": getattr(log, name)[:, j] for name in ("q", "qd", "qdd", "tau") for j in range(2)}
        pl.DataFrame(columns).write_parquet(directory / f"run{seed}.parquet")
        (directory / f"run{seed}.parquet.toml").write_text(SIDECAR)
    (directory / "run").mkdir()
    estimate_of(robot).save(directory / "run" / "estimate.json")
    (directory / "run" / "run.json").write_text(json.dumps({"command": ["mindyn", "identify", "arm.toml"]}))
    return directory


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def test_report_is_written_from_a_run(folder, tmp_path):
    out = tmp_path / "r.html"
    logs = ["--validate", folder / "run2.parquet", "--train", folder / "run1.parquet"]
    other = ["--compare", f"again={folder / 'run'}", "--prior", folder / "arm.toml"]
    done = run("report", folder / "run", *logs, *other, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == ""
    text = out.read_text()
    assert "mindyn identify arm.toml" in text
    assert "run2.parquet, held out" in text
    assert ">again</th>" in text


def test_several_runs_are_compared_by_the_names_of_their_folders(folder, tmp_path):
    (tmp_path / "later").mkdir()
    estimate_of(arm("planar2"), weights="ordinary").save(tmp_path / "later" / "estimate.json")
    estimate_of(arm("scara")).save(tmp_path / "another.json")
    given = [folder / "run", tmp_path / "later" / "estimate.json", tmp_path / "another.json"]
    done = run("report", *given, "--validate", folder / "run2.parquet", "--out", tmp_path / "r.html")
    assert done.exit_code == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert '"name":"later","role":"second"' in page, "intervals side by side"
    assert '"name":"another.json","role":"third"' in page
    table = page[page.index('id="comparison"') :]
    assert "later" in table
    assert "another.json" not in table[: table.index("</section>")], "torques of another robot are not compared"
    with raises(InputError, Code.DUPLICATE, "RUN"):
        run("report", folder / "run", folder / "run", "--out", tmp_path / "r.html")


def test_an_earlier_validation_is_mentioned(folder, tmp_path):
    run_folder, out = tmp_path / "made", tmp_path / "r.html"
    run_folder.mkdir()
    (run_folder / "estimate.json").write_bytes((folder / "run" / "estimate.json").read_bytes())
    validation = {"total": 0.0432, "rows": 100}
    (run_folder / "validation.json").write_text(json.dumps(validation))
    done = run("report", run_folder, "--out", out, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["validation"] == validation
    assert "with a torque error of 4.32 %" in " ".join(done.stderr.split())
    assert "error on held-out motion was 4.32 % of the torque" in out.read_text().replace("\u00a0", " ")
    assert "not validated" not in out.read_text()
    assert "No held-out log was given" not in out.read_text()
    done = run("report", run_folder, "--validate", folder / "run2.parquet", "--out", out, "--json")
    assert json.loads(done.stdout)["validation"]["total"] != validation["total"]
    assert "4.32" not in done.stderr
    (run_folder / "validation.json").write_text('{"total": null}')
    with raises(InputError, Code.WRONG_FORMAT, "validation.json"):
        run("report", run_folder, "--out", out)


def test_identify_writes_a_report_unless_disabled(folder, settings, tmp_path):
    given = ["identify", folder / "arm.toml", folder / "run1.parquet", "--conditioning", settings]
    done = run(*given, "--validate", folder / "run2.parquet", "--out", tmp_path / "with")
    assert done.exit_code == 0, done.stderr
    assert "The model is good" in (tmp_path / "with" / "report.html").read_text()
    assert run(*given, "--no-report", "--out", tmp_path / "without").exit_code == 0
    assert not (tmp_path / "without" / "report.html").exists()


@pytest.fixture(scope="module")
def settings(folder):
    path = folder / "settings.toml"
    path.write_text('motion_hz = "none"\nvelocity = "measured"\nacceleration = "measured"\nrate_hz = 200.0\n')
    return path


def test_a_new_run_replaces_all_files_of_the_earlier_run(folder, settings, tmp_path):
    given = ["identify", folder / "arm.toml", folder / "run1.parquet", "--conditioning", settings, "--out", tmp_path]
    (tmp_path / "notes.txt").write_text("mine")
    assert run(*given, "--validate", folder / "run2.parquet").exit_code == 0
    written = {*RUN_FILES, "notes.txt"} - {"elasticity.json"}  # of logs with positions of motors only
    assert {path.name for path in tmp_path.iterdir()} == written
    assert run(*given, "--no-report").exit_code == 0
    gone = {"validation.json", "report.html"}
    assert {path.name for path in tmp_path.iterdir()} == written - gone
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_failed_run_keeps_the_earlier_run(folder, settings, tmp_path):
    given = ["identify", folder / "arm.toml", folder / "run1.parquet", "--conditioning", settings, "--out", tmp_path]
    assert run(*given).exit_code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with raises(MindynError, Code.DISAGREEMENT, "puma560"):
        run(*given, "--consistent", "--prior", "puma560")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_training_logs_are_rejected_for_validation(folder, settings, tmp_path):
    run_folder, trained = tmp_path / "made", folder / "run1.parquet"
    assert run("identify", folder / "arm.toml", trained, "--conditioning", settings, "--out", run_folder).exit_code == 0
    out = tmp_path / "r.html"
    copy = tmp_path / "renamed.parquet"
    copy.write_bytes(trained.read_bytes())
    (tmp_path / "renamed.parquet.toml").write_text(SIDECAR)
    for seen in (trained, copy):
        with raises(InputError, Code.DISAGREEMENT, seen.name):
            run("report", run_folder, "--validate", folder / "run2.parquet", "--validate", seen, "--out", out)
    other = folder / "run2.parquet"
    with raises(InputError, Code.DISAGREEMENT, "run2.parquet"):
        run("report", run_folder, "--validate", other, "--train", other, "--out", out)
    assert not out.exists()
    assert run("report", run_folder, "--validate", other, "--train", trained, "--out", out).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "subject"),
    [
        (["nowhere"], Code.MISSING_FILE, "nowhere"),
        (["run", "--compare", "run"], Code.WRONG_FORMAT, "--compare"),
        (["run", "--compare", "a=nowhere"], Code.MISSING_FILE, "nowhere"),
        (["run", "--validate", "nowhere.csv"], Code.MISSING_FILE, "nowhere.csv"),
        (["run", "--prior", "puma560"], Code.DISAGREEMENT, "puma560"),
        (["run1.parquet.toml"], Code.WRONG_FORMAT, "run1.parquet.toml"),
    ],
)
def test_wrong_files_are_named_and_nothing_is_written(folder, monkeypatch, tmp_path, arguments, code, subject):
    monkeypatch.chdir(folder)
    with raises(MindynError, code, subject):
        run("report", *arguments, "--out", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_a_broken_run_record_is_rejected(folder, tmp_path):
    broken = tmp_path / "run"
    broken.mkdir()
    (broken / "estimate.json").write_bytes((folder / "run" / "estimate.json").read_bytes())
    (broken / "run.json").write_text("{")
    with raises(InputError, Code.WRONG_FORMAT, "run.json"):
        run("report", broken, "--out", tmp_path / "r.html")
    (broken / "run.json").write_text("[1]")
    with raises(InputError, Code.WRONG_FORMAT, "run.json"):
        run("report", broken, "--out", tmp_path / "r.html")


def test_numbers_of_the_report_are_finite(folder, tmp_path):
    out = tmp_path / "r.html"
    assert (
        run("report", folder / "run" / "estimate.json", "--validate", folder / "run2.parquet", "--out", out).exit_code
        == 0
    )
    text = out.read_text()
    data = json.loads(text.split('id="plots">')[1].split("</script>")[0])
    play = data["scene"]["playback"]
    assert np.isfinite([*play["times"], play["joints"]["low"], play["joints"]["high"]]).all()


@pytest.mark.parametrize("command", [("check",), ("export", "--to", "toml", "--force", "--out", "full.toml")])
def test_check_and_export_accept_the_folder_of_a_run(folder, command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    by_folder = run(command[0], folder / "run", *command[1:])
    by_file = run(command[0], folder / "run" / "estimate.json", *command[1:])
    assert by_folder.output == by_file.output.replace("/estimate.json", "")  # named in the next command
    assert by_folder.exit_code == by_file.exit_code
    with raises(InputError, Code.MISSING_FILE, str(folder / "nothing")):
        run(command[0], folder / "nothing", *command[1:])


def test_a_prior_may_be_a_bundled_robot(folder, tmp_path):
    out = tmp_path / "made"
    log, settings = folder / "run1.parquet", tmp_path / "c.toml"
    settings.write_text("motion_hz = 20.0\n")
    options = ["--consistent", "--prior", "planar2", "--no-report", "--conditioning", settings]
    assert run("identify", folder / "arm.toml", log, *options, "--out", out).exit_code == 0
    names = [source["path"] for source in json.loads((out / "run.json").read_text())["inputs"]]
    assert not any(name.endswith("planar2") for name in names)


def test_meshes_are_drawn_on_request_and_missing_files_are_reported(folder, tmp_path):
    source = tmp_path / "arm.urdf"
    source.write_text(urdf('<mesh filename="package://arm/box.stl" scale="0.1 0.1 0.1"/>'))
    robot = load_robot(source)
    run = tmp_path / "run"
    run.mkdir()
    estimate_of(robot).save(run / "estimate.json")
    (run / "run.json").write_text(json.dumps({"robot": {"given": str(source)}}))
    out = tmp_path / "report.html"
    done = CliRunner().invoke(app, ["report", str(run), "--meshes", "--out", str(out)])
    assert done.exit_code == 0
    assert "1 mesh file not drawn: package://arm/box.stl" in " ".join(done.stderr.split())
    (tmp_path / "box.stl").write_bytes(stl())
    for words in ([], ["--meshes"]):
        done = CliRunner().invoke(app, ["report", str(run), *words, "--out", str(out)])
        assert "drawn" not in done.stderr.replace(str(tmp_path), "")
        assert (" by meshes (" in out.read_text()) is bool(words)
    done = CliRunner().invoke(app, ["report", str(folder / "run"), "--meshes", "--out", str(out)])
    assert "no meshes are drawn" in done.stderr
