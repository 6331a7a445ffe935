"""The command line as a person meets it: data on stdout, errors with a hint on stderr, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from cli.program import mindyn_program as run

import mindyn

MINDYN = Path(sys.executable).parent / "mindyn"


def test_the_installed_program_says_what_is_wrong_and_what_it_is():
    """The one test in a process of its own: the others hold the same program in theirs."""
    piped = os.environ | {"COLUMNS": ""}
    for words, code, out, err in (
        (("--version",), 0, f"mindyn {mindyn.__version__}\n", ""),
        (("robots", "puma650"), 1, "", "error: 'puma650' is neither a bundled robot nor a file"),
    ):
        done = subprocess.run([MINDYN, *words], capture_output=True, text=True, timeout=300, env=piped)
        assert done.returncode == code
        assert done.stdout.startswith(out) if out else done.stdout == ""
        assert done.stderr.startswith(err) if err else done.stderr == ""


def test_robots_are_listed_and_shown():
    listed = json.loads(run("robots", "--json").out)
    assert {"puma560", "panda"} <= {entry["name"] for entry in listed}
    assert "joint6" in run("robots", "puma560").out
    assert "puma560_fgl" in run("robots").out


def test_errors_name_the_cause_and_end_with_code_1(tmp_path):
    done = run("robots", "puma650")
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("error: 'puma650' is neither a bundled robot nor a file")
    assert "Traceback" not in done.err
    broken = tmp_path / "arm.urdf"
    broken.write_text("<robot")
    assert "hint: check line 1" in run("robots", str(broken)).err
    assert run("nonsense").code == 2


def test_help():
    assert "robots" in run("--help").out


def test_base_prints_formulas_and_json():
    text = run("base", "puma560").out
    assert "puma560: 36 base parameters of 60 (structural)" in text
    assert "Ixx6 - Iyy6" in text
    assert "no effect: m1" in text
    assert "a3 m3" in run("base", "puma560", "--symbols").out
    data = json.loads(run("base", "puma560", "--drives", "--json").out)
    assert len(data["names"]) == 58
    assert "26 base parameters" in run("base", "five_bar").out
    wrong = run("base", "puma560", "--form", "magic")
    assert wrong.code == 1
    assert "the forms are: structural, lin" in wrong.err


def test_count_shows_formulations():
    counted = run("count", "puma560").out
    assert "Lin" in counted
    assert "Kane" in counted


def test_simulate_writes_a_log_that_reads_back(tmp_path):
    import mindyn

    path = tmp_path / "run.parquet"
    done = run("simulate", "puma560", "--seconds", "1", "--out", str(path))
    assert done.code == 0, done.err
    assert "200 samples of 6 joints" in done.err or "201 samples of 6 joints" in done.err
    log = mindyn.read_log(path, mindyn.load_robot("puma560"))
    assert log.q.shape == log.tau.shape
    assert run("simulate", "scara", "--seconds", "0.5", "--out", str(tmp_path / "s.csv")).code == 0
    assert mindyn.read_log(tmp_path / "s.csv", mindyn.load_robot("scara")).q.shape[1] == 4
    assert run("simulate", "puma560", "--out", str(tmp_path / "run.xyz")).code == 1
    assert "does not exist" in run("simulate", "puma560", "--out", str(tmp_path / "no" / "run.csv")).err
