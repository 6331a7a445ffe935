"""Workers: same results as without them, no guard needed in a script, and no failure or wait if they are lost.

Private names: the processes of workers are visible in them alone.
"""

from __future__ import annotations

import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from math import sqrt
from pathlib import Path

import pytest

from mindyn.foundation.processes import workers as module
from mindyn.foundation.processes.worker_messages import SharedData
from mindyn.foundation.processes.workers import (
    forget_shared_data,
    has_workers,
    share_tasks,
    start_task,
    worker_count,
    workers,
)

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import mindyn

with Path(sys.argv[1]).open("a") as runs:  # without a __main__ guard
    runs.write("run\\n")
robot = mindyn.load_robot("planar2")
t = np.arange(2000) / 200
rng = np.random.default_rng(0)
w, a, phase = rng.uniform(1, 6, (3, 2)), rng.uniform(0.1, 0.5, (3, 2)), rng.uniform(0, 6, (3, 2))
angle = t[:, None, None] * w + phase
q, qd, qdd = (x.sum(axis=1) for x in (a * np.sin(angle), a * w * np.cos(angle), -a * w**2 * np.sin(angle)))
tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd) + 0.3 * np.tanh(qd / 0.02)
tau += rng.normal(0, 0.01, q.shape)
estimate = mindyn.identify(robot, mindyn.log_from_arrays(robot.joint_names, t, q, tau))
how, found = estimate.provenance, (estimate.beta.tolist(), estimate.covariance.tolist())
print(how.method, *found, how.findings, estimate.data.identifiable)
"""
WAIT_IN_WORKERS = """
import os, time
from mindyn.foundation.processes.workers import share_tasks, start_task, worker_count, workers
with workers("math", 2):
    for _ in range(100):
        pids = [start_task(os.getpid)() for _ in range(4)]
        if os.getpid() not in pids:
            break
        time.sleep(0.05)
    print(*{pid for pid in pids if pid != os.getpid()}, flush=True)
    share_tasks(time.sleep, [(60,)] * 6)
"""


class Numbers(SharedData):
    """Shared data that counts how often it is read in a process."""

    read = 0

    def __init__(self) -> None:
        self.values = [1.0, 2.0]

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        Numbers.read += 1


def count_reads(numbers: Numbers) -> tuple[int, int]:
    """Return the process, and how often it has read the data."""
    return os.getpid(), numbers.read


@pytest.fixture(autouse=True)
def three_cores(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 3)


@pytest.fixture
def pool():
    with workers("math", 2):
        pool = module._active.get()
        deadline = time.monotonic() + 60
        while not all(worker.is_free for worker in pool.workers) and time.monotonic() < deadline:
            time.sleep(0.01)
        yield pool


def pids_of(pool) -> list[int]:
    return [pid for worker in pool.workers for pid in worker.executor._processes]


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def end_of(pids: list[int], seconds: float = 5.0) -> list[int]:
    """Return the processes that still run after some time."""
    deadline = time.monotonic() + seconds
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [pid for pid in pids if is_running(pid)]


def test_tasks_run_in_all_processes_and_results_are_in_order(pool):
    assert share_tasks(sqrt, [(number**2,) for number in range(50)]) == list(range(50))
    assert worker_count() == 2
    waiting = [start_task(_name_process_after, 0.5) for _ in range(2)]  # longer than a worker needs to take a task
    assert {wait() for wait in waiting} == set(pids_of(pool))


def _name_process_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


@pytest.mark.usefixtures("pool")
def test_a_task_that_fails_there_raises_its_error_here():
    with pytest.raises(ZeroDivisionError):
        share_tasks(operator.truediv, [(1, 1), (1, 2), (1, 0)])
    assert start_task(operator.truediv, 1, 4)() == 0.25  # the workers go on
    assert start_task(os.getpid)() != os.getpid()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs POSIX signals")
@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_results_are_complete_if_workers_are_killed_or_stopped(pool, number):
    pids = pids_of(pool)
    waiting = [start_task(operator.pow, 2, k) for k in range(2)]
    for pid in pids:
        os.kill(pid, getattr(signal, number))
    assert share_tasks(sqrt, [(4.0,), (9.0,), (16.0,)]) == [2.0, 3.0, 4.0]
    assert start_task(sqrt, 25.0)() == 5.0
    assert [wait() for wait in waiting] == [1, 2]
    pool.close()
    assert not end_of(pids)


def test_a_worker_that_takes_too_long_is_not_waited_for(pool, monkeypatch):
    monkeypatch.setattr(module, "MIN_PATIENCE_S", 0.2)
    start = time.monotonic()
    asked = share_tasks(_sleep_in_worker, [(os.getpid(), 30.0, k) for k in range(4)])
    assert asked == [0, 1, 2, 3]
    assert time.monotonic() - start < 15
    assert len(pids_of(pool)) == 2


def _sleep_in_worker(parent: int, seconds: float, number: int) -> int:
    if os.getpid() != parent:
        time.sleep(seconds)
    return number


@pytest.mark.usefixtures("pool")
def test_tasks_that_cannot_be_sent_run_here():
    assert share_tasks(lambda number: number + 1, [(1,), (2,), (3,)]) == [2, 3, 4]


@pytest.mark.usefixtures("pool")
def test_workers_go_on_after_a_result_that_cannot_be_sent():
    assert start_task(threading.Lock)().acquire()
    assert start_task(os.getpid)() != os.getpid()


def test_shared_data_are_read_once_by_a_worker_until_they_are_forgotten(pool):
    numbers = Numbers()
    answers = [start_task(count_reads, numbers)() for _ in range(6)]
    assert {read for pid, read in answers if pid != os.getpid()} == {1}
    (folder,) = {path.parent for _, path, _ in pool.outbox._written.values()}
    assert folder.stat().st_mode & 0o077 == 0
    forget_shared_data()
    assert not list(folder.iterdir())
    pool.close()
    assert not folder.exists()


def test_tasks_run_here_if_no_thread_or_process_can_be_started(monkeypatch):
    def raise_error(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", raise_error)
    with workers("math", 2):
        assert share_tasks(sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0]
        assert start_task(sqrt, 25.0)() == 5.0
    monkeypatch.undo()
    monkeypatch.setattr("loky.backend.popen_loky_posix.Popen._launch", _raise_blocking_error)
    with workers("math", 2):
        assert share_tasks(sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0]


def _raise_blocking_error(*_, **__):
    raise BlockingIOError(11, "Resource temporarily unavailable")


def test_nothing_is_started_without_memory_for_it(monkeypatch):
    monkeypatch.setattr(module, "available_bytes", lambda: 1e8)
    with workers("math", 2):
        assert not has_workers()
    assert module.available_bytes() > 0


@pytest.mark.usefixtures("pool")
def test_what_a_task_prints_is_not_a_result():
    assert start_task(os.write, 1, b"printed")() == len("printed")
    assert start_task(os.getpid)() != os.getpid()


@pytest.mark.parametrize("reason", ["not wanted", "worker", "one core", "embedded", "closed output"])
def test_nothing_is_started_where_it_cannot_help(monkeypatch, reason):
    if reason == "worker":
        monkeypatch.setattr(module, "parent_process", multiprocessing.current_process)
    if reason == "one core":
        monkeypatch.setattr(module, "usable_cores", lambda: 1)
    if reason == "embedded":
        monkeypatch.setattr(sys, "executable", "/opt/simulator/bin/simulator")
    if reason == "closed output":
        monkeypatch.setattr(sys, "stdout", None)
    with workers("math", 2, is_wanted=reason != "not wanted"):
        assert not has_workers()
        assert share_tasks(sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0]


def test_tasks_run_here_if_the_module_of_the_tasks_cannot_be_imported(capfd):
    with workers("no_such_module", 2):
        assert start_task(sqrt, 4.0)() == 2.0
        assert share_tasks(sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0]
    assert capfd.readouterr() == ("", "")


def test_an_inner_block_gets_more_workers_of_the_outer_one():
    with workers("math", 1):
        assert worker_count() == 1
        with workers("math", 2):
            assert worker_count() == 2
        assert worker_count() == 2
        with workers("math", 20):
            assert worker_count() == 2  # one core is the parent's
    assert not has_workers()


def test_threads_share_the_cores():
    live = list[int]()

    def work(number: int) -> list[float]:
        with workers("math", 2):
            live.append(sum(worker.executor._processes != {} for worker in module._LIVE))
            return share_tasks(sqrt, [(float(k * number) ** 2,) for k in range(20)])

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [[float(k * number) for k in range(20)] for number in range(8)]
    assert max(live) <= 2
    assert not module._LIVE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_use_the_workers_of_its_parent(pool):
    assert has_workers()
    child = os.fork()
    if not child:
        os._exit(0 if not has_workers() and share_tasks(sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(pids_of(pool)) == 2


def test_workers_end_with_the_block(pool):
    pids = pids_of(pool)
    pool.close()
    assert not end_of(pids)


def _accept_interrupts():
    """Undo that a shell lets its background jobs ignore Ctrl-C, which the tests inherit then."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_workers_end_with_their_parent(number):
    command = [sys.executable, "-c", WAIT_IN_WORKERS]
    environment = os.environ | {"MINDYN_CORES": "3"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        preexec_fn=_accept_interrupts,
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        if not pids:
            parent.kill()
            pytest.skip("one core")
        time.sleep(0.3)
        started = time.monotonic()
        if number == signal.SIGINT:
            os.killpg(parent.pid, signal.SIGINT)  # as a terminal does
            assert parent.wait(10) != 0
            assert time.monotonic() - started < 5  # a second on an idle machine
        else:
            parent.kill()
    assert not end_of(pids, 20)


@pytest.mark.parametrize("source", ["file", "standard input", "optimised", "prints at its start", "no output"])
def test_a_script_without_a_main_guard_runs_once_with_the_same_result(tmp_path, source):
    printed = []
    for cores in ("1", "3"):
        runs, out = tmp_path / f"runs{cores}", tmp_path / f"out{cores}"
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.replace("print(", f"print(file=open({str(out)!r}, 'w'), *(").rstrip() + ")\n")
        command = [sys.executable, *(["-O"] if source == "optimised" else [])]
        environment = os.environ | {"MINDYN_CORES": cores}
        if source == "prints at its start":
            folder = tmp_path / "site"
            folder.mkdir(exist_ok=True)
            (folder / "sitecustomize.py").write_text("print('hello', flush=True)\n")
            environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        ended = subprocess.run(
            [*command, "-" if source == "standard input" else str(script), str(runs)],
            input=script.read_text() if source == "standard input" else None,
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            preexec_fn=_close_streams if source == "no output" else None,
            timeout=300,
        )
        assert runs.read_text() == "run\n"
        assert not ended.stderr
        printed.append(out.read_text())
    assert printed[0] == printed[1] != ""


def _close_streams() -> None:
    for stream in (0, 1, 2):
        os.close(stream)


def test_a_daemonic_process_identifies_without_workers(tmp_path):
    script = tmp_path / "daemon.py"
    script.write_text(
        "import multiprocessing\nfrom pathlib import Path\n"
        f"def work():\n    import sys; sys.argv[1:] = [{str(tmp_path / 'runs')!r}]\n"
        f"    exec(compile({SCRIPT!r}, 'script', 'exec'), {{}})\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('spawn').Process(target=work, daemon=True)\n"
        "    child.start(); child.join(300); raise SystemExit(child.exitcode)\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MINDYN_CORES": "3"},
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "runs").read_text() == "run\n"
    assert "beta" not in ended.stderr
