"""`mindyn start`: asks what cannot be determined, runs the other commands, and prints them."""

from __future__ import annotations

import io
import json
import pathlib
import re
import shlex
import sys

import numpy as np
import pytest
from cli.program import mindyn_program

import mindyn

GAIN = 20.0
"""N m/A of the second log."""


class Terminal(io.StringIO):
    """Answers that are typed at a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the URDF of an arm and two logs: without names and rate, and with names but without units."""
    monkeypatch.chdir(tmp_path)
    robot = mindyn.load_robot("planar2")
    arm = mindyn.Robot(robot.name, robot.root, robot.joints, robot.links, gravity=np.array([0, -9.81, 0]))
    mindyn.write_toml(arm, "arm.toml")
    for name, seed, head in (("a.csv", 1, ""), ("b.csv", 2, "t,q1,q2,i1,i2")):
        rng, t = np.random.default_rng(seed), np.arange(1500) / 100
        w, p, a = 2 * np.pi * rng.uniform(0.2, 0.9, (3, 2)), rng.uniform(0, 6, (3, 2)), rng.uniform(0.3, 0.6, (3, 2))
        angle = t[:, None, None] * w + p
        q, qd = (a * np.sin(angle)).sum(axis=1), (a * w * np.cos(angle)).sum(axis=1)
        qdd = -(a * w**2 * np.sin(angle)).sum(axis=1)
        tau = mindyn.compile_model(arm).inverse_dynamics(q, qd, qdd) + qd + rng.normal(0, 0.02, q.shape)
        parts = [q, qd, tau] if not head else [t, q, tau / GAIN]
        np.savetxt(name, np.column_stack(parts), delimiter=",", header=head, comments="", fmt="%.9g")
    return tmp_path


def commands(text):
    """Return the commands that were printed, as words."""
    joined = re.sub(r"\s*\\\n\s+", " ", text)
    return [shlex.split(line)[2:] for line in joined.splitlines() if line.startswith("$ mindyn ")]


def test_from_logs_to_code_with_the_answers_of_a_user(folder, monkeypatch):
    answers = ["nonsense=1", "", f"[{GAIN}, {GAIN}]", "", "nothing", "c"]
    monkeypatch.setattr(sys, "stdin", Terminal("\n".join([*answers, ""])))
    done = mindyn_program("start", "arm.toml", "a.csv", "b.csv")
    assert done.code == 0, done.out + done.err
    assert "next: " not in done.err
    assert str(pathlib.Path("a") / "report.html") in done.err
    printed = commands(done.err)
    assert [words[0] for words in printed] == ["log", "log", "log", "log", "identify", "check", "export"]
    assert printed[4][1:5] == ["arm.toml", "a.csv", "--validate", "b.csv"]
    assert list((folder / "a").glob("*.c"))
    assert "The model is good" in done.out or "error is 0." in done.out, done.out
    for name in ("a.csv.toml", "b.csv.toml"):
        (folder / name).unlink()
    for words in printed[:4]:  # the commands alone do the same
        again = mindyn_program(*words)
        assert again.code == 0, again.err
    assert (folder / "b.csv.toml").is_file()


def test_without_a_terminal_the_commands_are_printed(folder):
    done = mindyn_program("start", "arm.toml", "a.csv", "--to", "urdf", "--out", "run 1")
    assert done.code == 2
    printed = commands(done.err)
    assert [words[0] for words in printed] == ["log", "log", "identify", "check", "export"]
    assert "--hold-out" in printed[2]
    assert printed[4][:4] == ["export", "run 1", "--to", "urdf"]
    assert "needs a terminal" in done.err
    assert sorted(path.name for path in folder.iterdir()) == ["a.csv", "arm.toml", "b.csv"]


@pytest.mark.usefixtures("folder")
def test_wrong_formats_and_missing_logs_are_rejected():
    assert mindyn_program("start", "arm.toml", "a.csv", "--to", "pdf").code == 1
    done = mindyn_program("start", "arm.toml", "nothing.csv")
    assert done.code == 1
    assert "nothing.csv" in done.err


def test_without_arguments_start_explains_itself():
    done = mindyn_program("start")
    assert done.code == 2
    assert "mindyn demo" in done.out + done.err
    assert "LOGS..." in done.out + done.err


@pytest.mark.usefixtures("folder")
def test_json_of_start_lists_commands_and_open_questions():
    done = mindyn_program("start", "arm.toml", "a.csv", "b.csv", "--json")
    data = json.loads(done.out)
    assert done.code == 2
    assert not data["is_finished"]
    assert set(data["questions"]) == {"a.csv", "b.csv"}
    assert data["questions"]["b.csv"] == ["current_gains"]
    assert [shlex.split(line)[1] for line in data["commands"]] == [words[0] for words in commands(done.err)]


def test_json_of_start_is_alone_on_stdout_and_prompts_split_no_word(folder, monkeypatch):
    answers = ["", f"{GAIN}, {GAIN}", "", "nothing", "c"]
    monkeypatch.setattr(sys, "stdin", Terminal("\n".join([*answers, ""])))
    done = mindyn_program("start", "arm.toml", "a.csv", "b.csv", "--json", columns=60)
    data = json.loads(done.out)
    assert data["is_finished"]
    assert (folder / data["exported"]).is_file()
    typed = re.sub(r"^(Correction|Export as|current_gains)( \[.*?\])?: ", "", done.err, flags=re.MULTILINE)
    prose = [line for line in typed.splitlines() if not line.startswith((" ", "$", "#"))]
    assert [line for line in prose if len(line) > 60 and " " in line.strip()] == []


@pytest.mark.usefixtures("folder")
def test_an_unknown_format_is_named(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal("\n".join(["", f"{GAIN}, {GAIN}", "", "pdf", "c", ""])))
    done = mindyn_program("start", "arm.toml", "a.csv", "b.csv")
    assert done.code == 0, done.err
    assert "'pdf' is not one of the formats" in done.err


@pytest.mark.usefixtures("folder")
def test_ctrl_c_or_the_end_of_the_input_at_a_prompt_ends_as_everywhere(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal(""))  # typer raises the same error for both
    done = mindyn_program("start", "arm.toml", "b.csv")
    assert done.code == 130
    assert "interrupted: the files written so far are kept" in done.err
