"""The command line as a person meets it: data on stdout, errors with a hint on stderr, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

MINDYN = Path(sys.executable).parent / "mindyn"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    piped = os.environ | {"COLUMNS": ""}
    return subprocess.run([MINDYN, *arguments], capture_output=True, text=True, timeout=300, env=piped)


def test_demo_identifies_what_it_simulated(tmp_path):
    done = run("demo", "--verbose", "--out", str(tmp_path / "demo"))
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line[:2] in ("fc", "mc", "Iz")]
    for name in ("fc1", "mcx2R", "Izz2R"):
        (true, *found, deviation) = next([float(value) for value in line[1:]] for line in lines if line[0] == name)
        assert len(found) == 4
        assert abs(found[-1] - true) < 5 * deviation
        assert max(abs(value - true) for value in found) < 0.02 * true
    assert "On the second motion" in done.stdout
    written = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"report.html", "estimate.json", "puma560.urdf", "puma560.c"} <= written


def test_robots_are_listed_and_shown():
    listed = json.loads(run("robots", "--json").stdout)
    assert {"puma560", "panda"} <= {entry["name"] for entry in listed}
    assert "joint6" in run("robots", "puma560").stdout
    assert "puma560_fgl" in run("robots").stdout


def test_errors_name_the_cause_and_end_with_code_1(tmp_path):
    done = run("robots", "puma650")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: 'puma650' is neither a bundled robot nor a file")
    assert "Traceback" not in done.stderr
    broken = tmp_path / "arm.urdf"
    broken.write_text("<robot")
    assert "hint: look at line 1" in run("robots", str(broken)).stderr
    assert run("nonsense").returncode == 2


def test_version_and_help():
    assert run("--version").stdout.startswith("mindyn 0.")
    assert "robots" in run("--help").stdout


def test_base_prints_formulas_json_and_latex():
    text = run("base", "puma560").stdout
    assert "puma560: 36 base parameters of 60 (structural)" in text
    assert "Ixx6 - Iyy6" in text
    assert "no effect: m1" in text
    assert "a3 m3" in run("base", "puma560", "--symbols").stdout
    data = json.loads(run("base", "puma560", "--drives", "--json").stdout)
    assert len(data["names"]) == 58
    assert run("base", "scara", "--latex").stdout.startswith(r"\begin{align}")
    assert "26 base parameters" in run("base", "five_bar").stdout
    wrong = run("base", "puma560", "--form", "magic")
    assert wrong.returncode == 1
    assert "the forms are: structural, lin" in wrong.stderr


def test_count_shows_formulations_and_the_papers():
    assert "Lin" in run("count", "puma560").stdout
    assert "Kane" in run("count", "puma560").stdout
    assert "89 n - 82" in run("count", "--papers").stdout or "89n" in run("count", "--papers").stdout
    wrong = run("count")
    assert wrong.returncode == 1
    assert "hint: mindyn count puma560" in wrong.stderr


def test_simulate_writes_a_log_that_reads_back(tmp_path):
    import mindyn

    path = tmp_path / "run.parquet"
    done = run("simulate", "puma560", "--seconds", "1", "--out", str(path))
    assert done.returncode == 0, done.stderr
    assert "200 samples of 6 joints" in done.stderr or "201 samples of 6 joints" in done.stderr
    log = mindyn.read_log(path, mindyn.load_robot("puma560"))
    assert log.q.shape == log.tau.shape
    assert run("simulate", "scara", "--seconds", "0.5", "--out", str(tmp_path / "s.csv")).returncode == 0
    assert mindyn.read_log(tmp_path / "s.csv", mindyn.load_robot("scara")).q.shape[1] == 4
    assert run("simulate", "puma560", "--out", str(tmp_path / "run.xyz")).returncode == 1
    assert "no folder" in run("simulate", "puma560", "--out", str(tmp_path / "no" / "run.csv")).stderr
