"""A new user at a terminal of 80 columns: from a URDF and a CSV file to an exported model, and Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from cli.program import mindyn_program

import mindyn
from mindyn.cli.main import COMMAND_EXAMPLES, COMMANDS
from mindyn.cli.printing import NOTHING_WRITTEN
from mindyn.foundation import escaping
from mindyn.robots.table import format_table

COLUMNS, MOST_LINES = 80, 25


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """Return a folder with the URDF of a robot with four joints and a log."""
    folder = tmp_path_factory.mktemp("newcomer")
    robot = mindyn.load_robot("scara")
    drives = tuple(mindyn.Drive(joint, viscous=2.0) for joint in robot.joint_names)
    mindyn.write_urdf(replace(robot, drives=drives), folder / "arm.urdf", force=True)
    sensors = ("--torque-noise", 0.3, "--noise-at", "joint", "--rate-hz", 50, "--seconds", 8)
    ended = mindyn_program("simulate", folder / "arm.urdf", *sensors, "--out", folder / "run1.csv")
    assert ended.code == 0, ended.err
    return folder


def test_no_line_wraps_and_no_output_is_longer_than_the_screen(arm, monkeypatch):
    monkeypatch.chdir(arm)
    script = (
        ("robots", "arm.urdf"),
        ("robots",),
        ("identify", "arm.urdf", "run1.csv", "--hold-out", 0.3, "--out", "run1"),
        ("check", "run1"),
        ("report", "run1"),
        ("export", "run1", "--to", "urdf", "--out", "model.urdf", "--feasible"),
        ("robots", "nothing.urdf"),
    )
    for words in script:
        ended = mindyn_program(*words, columns=COLUMNS)
        assert ended.code == (1 if "nothing.urdf" in words else 0), ended.err
        lines = [*ended.out.splitlines(), *ended.err.splitlines()]
        # A word that is longer than a line, such as a path, cannot be broken.
        assert [line for line in lines if len(line) > COLUMNS and " " in line.strip()] == []
        assert len(lines) <= MOST_LINES, "\n".join(lines)
        assert "\x1b" not in ended.out + ended.err, "colours are for terminals"


def test_other_commands_fit_the_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (
        ("step-by-step", "plan", "planar2", "plan"),
        ("base", "scara"),
        ("papers",),
        ("compare", "--help"),
        ("--help",),
    ):
        for columns in (COLUMNS, 120):
            ended = mindyn_program(*words, columns=columns)
            assert ended.code == 0, ended.err
            assert [line for line in ended.out.splitlines() + ended.err.splitlines() if len(line) > columns] == []
    assert "<bool>" not in ended.out, "nothing is typed behind a switch"


def test_tables_wrap_between_words():
    rows = [("name", "what it says"), ("constant-velocity-01", "word " * 30), ("x" * 70, "y")]
    assert max(map(len, format_table(rows).splitlines())) > COLUMNS
    held = escaping.TERMINAL_COLUMNS.set(COLUMNS)
    try:
        lines = format_table(rows).splitlines()
    finally:
        escaping.TERMINAL_COLUMNS.reset(held)
    assert max(map(len, lines)) <= COLUMNS
    assert sum(line.count("word") for line in lines) == 30
    assert any(line.startswith("constant-velocity-01 ") for line in lines)


def test_verbose_shows_every_parameter(arm):
    ended = mindyn_program("identify", arm / "arm.urdf", arm / "run1.csv", "--verbose", columns=120)
    names = mindyn.base_parameters(mindyn.load_robot(arm / "arm.urdf")).names
    assert [name for name in names if name not in ended.out] == []
    assert "filter: cross-validated error" in ended.err
    assert max(map(len, ended.err.splitlines())) <= 120


def test_a_draft_without_questions_names_confirm_and_confirming_twice_checks_the_log(arm):
    bare = arm / "bare.csv"
    bare.write_bytes((arm / "run1.csv").read_bytes())
    assert "--confirm writes it" in mindyn_program("log", bare, arm / "arm.urdf").err
    assert "--write writes" in mindyn_program("log", bare).err  # without a robot, questions stay open
    for _ in range(2):
        ended = mindyn_program("log", bare, arm / "arm.urdf", "--confirm")
        assert ended.code == 0, ended.err
    assert "peak torque" in ended.out


def run_and_interrupt(folder, after, *words):
    """Return exit code and stderr of a command that gets Ctrl-C once `after` is printed or drawn."""
    master, terminal = pty.openpty()
    command = [sys.executable, "-c", "from mindyn.cli.main import run; run()", *map(str, words)]
    program = subprocess.Popen(
        command,
        cwd=folder,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        # Of tests that run in the background the signal is ignored, and programs inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    os.close(terminal)
    seen = b""
    until = time.monotonic() + 100
    while after not in seen and time.monotonic() < until:
        seen += os.read(master, 4096)
    time.sleep(0.5)
    os.killpg(program.pid, signal.SIGINT)
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:  # the terminal is gone with the last process
        pass
    return program.wait(timeout=60), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


def test_ctrl_c_ends_with_one_line_and_leaves_no_empty_folder(arm):
    code, lines = run_and_interrupt(arm, b"identifying", "identify", "arm.urdf", "run1.csv", "--out", "deep/stopped")
    assert code == 130, lines
    assert NOTHING_WRITTEN in " ".join(lines.split())
    assert "Traceback" not in lines
    assert "Error" not in lines
    assert not (arm / "deep").exists()


def test_an_early_interrupt_of_fleet_leaves_no_folder(tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mindyn.applications.fleet.study_fleet.study_fleet", interrupt)
    ended = mindyn_program("fleet", "planar2", "logs/{robot_id}/*.csv", "--out", tmp_path / "deep" / "fleet")
    assert ended.code == 130
    assert ended.err == f"interrupted: {NOTHING_WRITTEN}\n"
    assert not (tmp_path / "deep").exists()


def test_every_command_has_a_panel_and_an_example():
    placed = {name: example for group in COMMAND_EXAMPLES.values() for name, example in group.items()}
    assert set(placed) == set(COMMANDS)
    assert all(example.split()[0] == name for name, example in placed.items())
    shown = mindyn_program("--help", columns=COLUMNS).out
    assert all(f"$ mindyn {example}" in shown for example in placed.values())
    assert [shown.index(panel) for panel in COMMAND_EXAMPLES] == sorted(
        shown.index(panel) for panel in COMMAND_EXAMPLES
    )
