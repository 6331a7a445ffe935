"""Files that belong together: whenever a writer is killed, no file is found with others of another version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from raising import raises

import mindyn
from mindyn.foundation.atomic_files import write_file_atomically, write_files_atomically
from mindyn.foundation.errors import Code, ExportError

KILLED = """
import os, signal, sys
from pathlib import Path
from mindyn.foundation.atomic_files import write_files_atomically
folder, text = Path(sys.argv[1]), sys.argv[2]
write_files_atomically({folder / "warm": text})
for k in range(1, 200):
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        names = ("s.csv", "s.csv.toml")
        log, sidecar = ((folder / name).read_text() if (folder / name).exists() else None for name in names)
        print(log, sidecar, flush=True)
        if (log, sidecar) == ("new log", text):
            break
        write_files_atomically({folder / "s.csv": "old log", folder / "s.csv.toml": "old sidecar"})
        continue
    count = 0
    def watch(event, _):
        global count
        if event.startswith(("open", "os.")) and (count := count + 1) == k:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    write_files_atomically({folder / "s.csv": "new log", folder / "s.csv.toml": text})
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the writer is forked")
@pytest.mark.parametrize("sidecar", ["new sidecar", "old sidecar"])
def test_a_killed_writer_leaves_no_log_with_another_sidecar(tmp_path, sidecar):
    write_files_atomically({tmp_path / "s.csv": "old log", tmp_path / "s.csv.toml": "old sidecar"})
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path, sidecar], capture_output=True, text=True, check=True)
    states = set(done.stdout.splitlines())
    complete = {"old log old sidecar", f"new log {sidecar}"}
    assert complete <= states
    assert all(state.startswith("None ") for state in states - complete)
    write_files_atomically({tmp_path / "s.csv": "x", tmp_path / "s.csv.toml": "y"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.csv", "s.csv.toml", "warm"]


def name_of_temporary_file(folder):
    """Return the name under which a file is written before it is moved."""
    names = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: names.extend(path.name for path in folder.glob(".a.writing-*")))
        write_file_atomically(folder / "a", "x")
    return names[0]


def test_files_of_running_processes_and_other_machines_stay(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    machine = name_of_temporary_file(tmp_path).split("-")[1]
    names = [f".a.writing-{machine}-{number}-0" for number in (os.getpid(), int(ended.stdout))]
    for name in (*names, f".a.writing-00000000-{int(ended.stdout)}-0"):
        (tmp_path / name).write_text("")
    write_file_atomically(tmp_path / "a", "y")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [names[0], f".a.writing-00000000-{int(ended.stdout)}-0", "a"]
    )


def test_a_failed_move_restores_the_previous_file(tmp_path, monkeypatch):
    first, second = tmp_path / "a", tmp_path / "b"
    write_files_atomically({first: "old", second: "old"})
    replace = Path.replace

    def fail(self, target):
        if Path(target) == second:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with raises(ExportError, Code.NOT_WRITABLE):
        write_files_atomically({first: "new", second: "new"})
    assert (first.read_text(), second.read_text()) == ("old", "old")
    assert len(list(tmp_path.iterdir())) == 2


def test_ten_processes_import_an_exported_module_at_once(tmp_path):
    model = mindyn.compile_model(mindyn.load_robot("planar2"))
    model.write_c(tmp_path / "arm.py", ["gravity"])
    code = "import arm, numpy; print(arm.gravity(numpy.array([0.1, 0.2])))"
    started = [
        subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(10)
    ]
    ends = [(process.communicate(), process.returncode) for process in started]
    assert {code for _, code in ends} == {0}
    assert len({out for (out, _), _ in ends}) == 1
    assert not list(tmp_path.glob(".compiling-*"))
