"""The disk cache: never a wrong object, whatever happens to its files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from references import random_inputs
from serial_arm import inverse_dynamics, puma_like

from mindyn.kernels.kernel import Kernel
from mindyn.kernels.numerics import cache, native

FUNCTION = inverse_dynamics(puma_like())
HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    Kernel(FUNCTION)  # the object of direct calls, made once in a process, goes elsewhere
    monkeypatch.setenv("MINDYN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def builds(monkeypatch):
    """A list that grows with every real compilation."""
    compiled = []
    assemble = native.assemble_code
    monkeypatch.setattr(native, "assemble_code", lambda ir: compiled.append(ir) or assemble(ir))
    return compiled


def torques():
    return Kernel(FUNCTION)(*random_inputs(FUNCTION, (9,)))


def entry(folder: Path) -> Path:
    """The kernel's object; the small one of a child process's direct calls may lie beside it."""
    return max(folder.glob("*.o"), key=lambda path: path.stat().st_size)


def test_the_second_kernel_loads_what_the_first_compiled(folder, builds):
    first, second = torques(), torques()
    assert len(builds) == 1
    assert (first == second).all()
    assert entry(folder).read_bytes().startswith(cache.MAGIC)


DAMAGE = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "one bit flipped": lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    "header only": lambda content: content[:48],
    "something else": lambda _: b"not an object",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_entry_is_built_again(folder, builds, name):
    expected = torques()
    whole = entry(folder).read_bytes()
    entry(folder).write_bytes(DAMAGE[name](whole))
    assert (torques() == expected).all()
    assert len(builds) == 2
    assert entry(folder).read_bytes() == whole


def test_a_directory_with_the_name_of_an_entry_only_disables_caching(folder):
    expected = torques()
    path = entry(folder)
    path.unlink()
    path.mkdir()
    assert (torques() == expected).all()


@pytest.mark.parametrize("where", ["/proc/nowhere", "/dev/null/cache"])
def test_an_unwritable_directory_only_disables_caching(where, monkeypatch, builds):
    monkeypatch.setenv("MINDYN_CACHE_DIR", where)
    torques()
    torques()
    assert len(builds) == 2


def test_entries_depend_on_type_layout_checks_program_and_environment(folder, monkeypatch):
    inputs = random_inputs(FUNCTION, (9,))
    Kernel(FUNCTION)(*inputs)
    Kernel(FUNCTION, dtype=np.float32)(*inputs)
    Kernel(FUNCTION, check_finite=False)(*inputs)
    Kernel(FUNCTION, compact=("tau",))(*inputs)
    Kernel(inverse_dynamics(puma_like(seed=1)))(*inputs)
    monkeypatch.setattr(cache, "_build_environment", lambda: ("another version",))
    Kernel(FUNCTION)(*inputs)
    assert len(list(folder.glob("*.o"))) == 6


def test_the_directory_follows_the_environment(monkeypatch):
    monkeypatch.delenv("MINDYN_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.cache_directory() == Path("/somewhere/mindyn")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache.cache_directory() == Path("/home/me/.cache/mindyn")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache.cache_directory() == Path("/home/me/.cache/mindyn")


def folder_of_another_user(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)


def folder_open_to_all(folder, _):
    folder.chmod(0o777)


def folder_open_to_the_group(folder, _):
    folder.chmod(0o770)


def file_open_to_all(folder, _):
    entry(folder).chmod(0o666)


def file_behind_a_link(folder, _):
    path = entry(folder)
    path.rename(folder.parent / "elsewhere")
    path.symlink_to(folder.parent / "elsewhere")


def pipe_in_place_of_a_file(folder, _):
    path = entry(folder)
    path.unlink()
    os.mkfifo(path)


DISTRUSTED = (folder_of_another_user, folder_open_to_all, folder_open_to_the_group, file_open_to_all)
DISTRUSTED += (file_behind_a_link, pipe_in_place_of_a_file)


@pytest.mark.parametrize("make", DISTRUSTED, ids=lambda maker: maker.__name__)
def test_code_that_others_can_write_is_not_run(folder, builds, monkeypatch, make):
    expected = torques()
    make(folder, monkeypatch)
    assert (torques() == expected).all()
    assert len(builds) == 2


def test_a_file_of_another_user_is_not_run(folder, builds, monkeypatch):
    torques()
    assert entry(folder)
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda handle: foreign(real(handle)))
    torques()
    assert len(builds) == 2


def foreign(status):
    """The status of a file that belongs to the next user."""
    return os.stat_result((*status[:4], status.st_uid + 1, *status[5:]))


def test_an_entry_under_another_name_is_built_again(folder):
    cache.load_or_build(("one",), lambda: b"of one")
    (first,) = folder.glob("*.o")
    cache.load_or_build(("other",), lambda: b"of the other")
    (other,) = set(folder.glob("*.o")) - {first}
    first.replace(other)
    assert cache.load_or_build(("other",), lambda: b"built again") == b"built again"


def test_only_the_owner_can_access_the_folder(folder):
    before = os.umask(0o002)
    try:
        torques()
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert entry(folder).stat().st_mode & 0o777 == 0o600


def test_a_default_folder_that_an_umask_left_open_is_closed(tmp_path, monkeypatch, builds):
    monkeypatch.delenv("MINDYN_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mindyn").mkdir()
    (tmp_path / "mindyn").chmod(0o775)
    torques()
    torques()
    assert len(builds) == 1
    assert (tmp_path / "mindyn").stat().st_mode & 0o777 == 0o700


def test_folders_of_other_platforms(monkeypatch):
    monkeypatch.delenv("MINDYN_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.cache_directory() == Path("/home/me/Library/Caches/mindyn")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/home/me/AppData/Local")
    assert cache.cache_directory() == Path("/home/me/AppData/Local/mindyn")


def test_the_least_recently_used_entries_are_pruned(folder, monkeypatch):
    monkeypatch.setattr(cache, "MAX_CACHE_BYTES", 2500)
    monkeypatch.setattr(cache, "_WRITES_PER_PRUNE", 1)
    for age, key in enumerate("abc"):
        cache.load_or_build((key,), lambda: b"x" * 1000)
        for path in folder.glob("*.o"):
            os.utime(path, (path.stat().st_atime - 100, path.stat().st_mtime - 100))
        assert len(list(folder.glob("*.o"))) == min(age + 1, 2)
    assert cache.load_or_build(("c",), lambda: b"built") == b"x" * 1000
    assert cache.load_or_build(("a",), lambda: b"built") == b"built"


def test_old_files_of_killed_processes_are_removed(folder, monkeypatch):
    monkeypatch.setattr(cache, "_WRITES_PER_PRUNE", 1)
    folder.mkdir(mode=0o700)
    old, new = folder / ".writing-old", folder / ".writing-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.load_or_build(("key",), lambda: b"x")
    assert not old.exists()
    assert new.exists()


WORKER = """
import sys, numpy
from references import random_inputs
from serial_arm import inverse_dynamics, puma_like
from mindyn.kernels.kernel import Kernel
print("ready", flush=True)
function = inverse_dynamics(puma_like())
print(Kernel(function)(*random_inputs(function, (9,))).tobytes().hex())
"""


def test_killed_processes_leave_no_wrong_entry(folder):
    expected = torques().tobytes().hex()
    entry(folder).unlink()
    paths = [str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(12)
    ]
    for delay, worker in enumerate(workers[::3]):
        worker.stdout.readline()
        time.sleep(0.02 * delay)
        worker.kill()
    for number, worker in enumerate(workers):
        output, _ = worker.communicate(timeout=120)
        if number % 3:
            assert worker.returncode == 0
            assert output.split()[-1] == expected
    assert torques().tobytes().hex() == expected
    assert entry(folder).read_bytes().startswith(cache.MAGIC)


def test_freed_code_leaves_no_memory_behind():
    code = native.assemble_code("define double @kernel(double %x) {\n  %y = fadd double %x, 1.5\n  ret double %y\n}\n")

    def grown(count: int) -> int:
        before = resident_bytes()
        for _ in range(count):
            native.load(code, "kernel")
        return resident_bytes() - before

    grown(2 * native._LIBRARIES_PER_LINKER)
    assert grown(6 * native._LIBRARIES_PER_LINKER) < 600_000  # 9 kB each, where one linker keeps them all


def resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("this system does not report the memory of a process")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
