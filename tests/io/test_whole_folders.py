"""A folder whose replacement is interrupted at any moment contains either all old files or all new ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from raising import raises

from mindyn.foundation.atomic_files import (
    finish_replacement,
    replace_folder_files,
    write_files_atomically,
    write_folder_atomically,
)
from mindyn.foundation.errors import Code, ExportError

SCRIPT = Path(__file__).with_name("interrupted_writing.py")


@pytest.mark.parametrize("where", ["beside", "inside"])
@pytest.mark.parametrize("trouble", ["kill", "error", "full"])
def test_an_interrupted_replacement_is_all_or_nothing(tmp_path, trouble, where):
    command = [sys.executable, str(SCRIPT), str(tmp_path / "run"), trouble, where]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    attempts = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {attempt["state"] for attempt in attempts} <= {"old", "new"}
    assert attempts[0]["state"] == "old"
    assert attempts[-1] == {"moment": len(attempts), "through": True, "state": "new"}
    assert len(attempts) > 15


def test_temporary_folders_of_killed_processes_are_removed_after_a_day(tmp_path):
    old, new = tmp_path / ".run.writing-old", tmp_path / ".run.writing-new"
    for path in (old, new):
        path.mkdir()
    os.utime(old, (time.time() - 2 * 86400,) * 2)
    with replace_folder_files(tmp_path / "run", ["a"]) as folder:
        (folder / "a").write_text("1")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".run.writing-new", "run"]


def test_the_working_directory_keeps_its_identity(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("old")
    before = tmp_path.stat().st_ino
    with replace_folder_files(".", ["a", "b"]) as folder:
        (folder / "b").write_text("new")
    assert tmp_path.stat().st_ino == before
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_folder_behind_a_symbolic_link_is_replaced_in_place(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with replace_folder_files(tmp_path / "link", ["a"]) as folder:
        (folder / "a").write_text("1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a").read_text() == "1"


@pytest.mark.parametrize("manifest", ['["../../victim"]', '[".."]', '["/etc/passwd"]', '"a"', "[1]", "{", ""])
def test_a_foreign_successor_removes_nothing(tmp_path, manifest):
    run = tmp_path / "deep" / "run"
    (run / ".mindyn-next").mkdir(parents=True)
    (tmp_path / "victim").write_text("mine")
    (run / ".mindyn-next" / ".replaced.json").write_text(manifest)
    with raises(ExportError, Code.WRONG_FORMAT, ".mindyn-next"):
        finish_replacement(run)
    assert (tmp_path / "victim").read_text() == "mine"


def test_files_that_belong_together_are_replaced_together(tmp_path):
    write_files_atomically({tmp_path / "a.c": "1", tmp_path / "a.h": "1"})
    with raises(ExportError, Code.MISSING_FILE, str(tmp_path / "nowhere")):
        write_files_atomically({tmp_path / "a.c": "2", tmp_path / "nowhere" / "a.h": "2"})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.c": "1", "a.h": "1"}


def test_devices_pipes_and_folders_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with raises(ExportError, Code.WRONG_TYPE, "pipe"):
        write_files_atomically({tmp_path / "a.c": "1", tmp_path / "pipe": "1"})
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    with raises(ExportError, Code.WRONG_TYPE, tmp_path.name):
        write_files_atomically({tmp_path: "1"})


def test_a_package_is_not_written_into_a_folder_that_is_not_empty(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with raises(ExportError, Code.DUPLICATE, tmp_path.name):
        write_folder_atomically(tmp_path, {"a": "1"})
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
