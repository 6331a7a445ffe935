"""Every public name can be the first that several threads use at the same time."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import mesh_samples as samples
import numpy as np
import pytest
from first_calls import CALLS, THREADS

import mindyn
from mindyn.foundation.compute_once import compute_once

SCRIPT = Path(__file__).with_name("first_calls.py")
ESTIMATE = Path(__file__).parents[1] / "estimators" / "saved_estimate.json"
STARTED_ALONE = ("bundled_robots", "read_log", "compile_model", "check_feasible", "write_report", "all")
"""Names whose first call is repeated: several crashed in some of the runs."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    shutil.copy(ESTIMATE, folder / "estimate.json")
    (folder / "arm.urdf").write_text(samples.arm('<box size="0.1 0.1 0.1"/>'))
    arm = mindyn.load_robot("planar2")
    t = np.arange(400) / 100
    q = np.column_stack([np.sin(2 * t), np.cos(3 * t)])
    qd, qdd = np.column_stack([2 * np.cos(2 * t), -3 * np.sin(3 * t)]), -q * [4, 9]
    tau = mindyn.compile_model(arm, with_drives=True).inverse_dynamics(q, qd, qdd)
    mindyn.log_from_arrays(arm.joint_names, t, q, tau).save(folder / "run.csv", arm)
    return folder


def test_every_public_function_is_tried():
    functions = {name for name in mindyn.__all__ if callable(getattr(mindyn, name)) and name.islower()}
    assert functions == set(CALLS)


EACH_ALONE = [pytest.param(name, marks=pytest.mark.full) for name in (*CALLS, *STARTED_ALONE)]
"""Every name begins in a process of its own, which takes a second."""


@pytest.mark.parametrize("name", [*STARTED_ALONE, *EACH_ALONE])
def test_eight_threads_make_the_first_call(name, folder):
    done = subprocess.run([sys.executable, SCRIPT, name, folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_value_is_computed_once_for_all_threads():
    from concurrent.futures import ThreadPoolExecutor
    from time import sleep

    @compute_once
    def value():
        sleep(0.05)
        return object()

    with ThreadPoolExecutor(THREADS) as pool:
        values = list(pool.map(lambda _: value(), range(THREADS)))
    assert len(set(map(id, values))) == 1
    value.forget()
    assert value() is not values[0]
