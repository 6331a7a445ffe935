"""The second process: same results as without it, no guard needed in a script, and no failure if it is lost.

Private names: the numbers of data that a process keeps are visible in them alone.
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
from math import sqrt
from pathlib import Path
from types import SimpleNamespace

import pytest

from mindyn.identification.selection.trials import _Shared
from mindyn.kernels.numerics import second_process as module
from mindyn.kernels.numerics.second_process import has_second_process, second_process, share_tasks, start_task

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
tau = mindyn.compile_model(robot, drives=True).inverse_dynamics(q, qd, qdd) + 0.3 * np.tanh(qd / 0.02)
tau += rng.normal(0, 0.01, q.shape)
estimate = mindyn.identify(robot, mindyn.log_from_arrays(robot.joint_names, t, q, tau))
print(estimate.method, estimate.beta.tolist(), estimate.covariance.tolist(), estimate.findings, estimate.identifiable)
"""


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 2)


@pytest.fixture
def process():
    with second_process("math"):
        start_task(int)()  # wait for the start
        yield module._active.get()


@pytest.mark.usefixtures("process")
def test_tasks_run_in_both_processes_and_results_are_in_order():
    assert share_tasks(sqrt, [(number**2,) for number in range(50)]) == list(range(50))
    share_tasks(time.sleep, [(0.05,)] * 4)
    pids = {start_task(os.getpid)(), os.getpid()}
    assert len(pids) == 2


@pytest.mark.usefixtures("process")
def test_a_task_that_fails_there_raises_its_error_here():
    with pytest.raises(ZeroDivisionError):
        share_tasks(operator.truediv, [(1, 1), (1, 2), (1, 0)])
    assert start_task(operator.truediv, 1, 4)() == 0.25  # the process goes on


def test_results_are_complete_if_the_process_is_killed(process):
    start_task(time.sleep, 60)
    process._process.kill()
    assert share_tasks(sqrt, [(4.0,), (9.0,), (16.0,)]) == [2.0, 3.0, 4.0]
    assert start_task(sqrt, 25.0)() == 5.0


@pytest.mark.usefixtures("process")
def test_tasks_that_cannot_be_sent_run_here():
    assert share_tasks(lambda number: number + 1, [(1,), (2,), (3,)]) == [2, 3, 4]


@pytest.mark.usefixtures("process")
def test_the_process_goes_on_after_a_result_that_cannot_be_sent():
    assert start_task(threading.Lock)().acquire()
    assert start_task(os.getpid)() != os.getpid()


@pytest.mark.usefixtures("process")
def test_an_answer_that_is_not_read_is_not_taken_for_the_next_one(monkeypatch):
    def raise_error(_):
        monkeypatch.undo()
        raise MemoryError

    monkeypatch.setattr(module, "_read", raise_error)
    assert start_task(sqrt, 4.0)() == 2.0
    assert start_task(sqrt, 9.0)() == 3.0


def test_tasks_run_here_if_no_thread_can_be_started(monkeypatch):
    def raise_error(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", raise_error)
    with second_process("math"):
        child = module._active.get()._process
        assert share_tasks(sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0]
        assert start_task(sqrt, 25.0)() == 5.0
    assert child.returncode is not None


def test_data_that_a_process_keeps_have_numbers_of_their_own():
    """Also after earlier data, which the process still has, were freed here."""
    regressor = SimpleNamespace(robot=None, with_friction=abs)
    numbers = {_Shared(None, regressor).__reduce__()[1][0] for _ in range(20)}
    assert len(numbers) == 20


@pytest.mark.usefixtures("process")
def test_what_a_task_prints_is_not_a_result():
    assert start_task(os.write, 1, b"printed")() == len("printed")
    assert start_task(os.getpid)() != os.getpid()


def test_nothing_is_started_on_one_core_or_in_a_worker(monkeypatch):
    with second_process("math", is_wanted=False):
        assert not has_second_process()
    monkeypatch.setattr(module, "parent_process", multiprocessing.current_process)
    with second_process("math"):
        assert not has_second_process()
    monkeypatch.undo()
    monkeypatch.setattr(module, "usable_cores", lambda: 1)
    with second_process("math"):
        assert not has_second_process()


def test_nothing_is_started_by_a_program_that_embeds_the_interpreter(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/simulator/bin/simulator")
    with second_process("math"):
        assert not has_second_process()
        assert share_tasks(sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0]


def test_tasks_run_here_if_no_process_can_be_started(monkeypatch):
    def raise_error(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", raise_error)
    with second_process("math"):
        assert share_tasks(sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0]


def test_tasks_run_here_if_the_module_of_the_tasks_cannot_be_imported(capfd):
    with second_process("no_such_module"):
        assert start_task(sqrt, 4.0)() == 2.0
        assert share_tasks(sqrt, [(4.0,), (9.0,)]) == [2.0, 3.0]
    assert capfd.readouterr() == ("", "")


def test_the_process_ends_with_the_block():
    with second_process("math"):
        pid = start_task(os.getpid)()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_the_process_ends_if_its_parent_is_killed():
    code = (
        "import os, time; from mindyn.kernels.numerics.second_process import second_process, start_task\n"
        "with second_process('math'):\n    print(start_task(os.getpid)(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | {"MINDYN_CORES": "2"}
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    if pid == parent.pid:
        pytest.skip("one core")
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.05)
    pytest.fail("the second process is still there")


@pytest.mark.parametrize("source", ["file", "standard input"])
def test_a_script_without_a_main_guard_runs_once_with_the_same_result(tmp_path, source):
    printed = []
    for cores in ("1", "2"):
        runs = tmp_path / f"runs{cores}"
        script = tmp_path / "script.py"
        script.write_text(SCRIPT)
        command = [sys.executable, str(script) if source == "file" else "-", str(runs)]
        ended = subprocess.run(
            command,
            input=SCRIPT if source != "file" else None,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"MINDYN_CORES": cores},
        )
        assert runs.read_text() == "run\n"
        assert not ended.stderr
        printed.append(ended.stdout)
    assert printed[0] == printed[1]
