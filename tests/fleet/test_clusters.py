"""The same study on a Dask cluster over an object store, by processes, and serially; workers and drivers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep

import pytest
from closeness import ORACLE, assert_close
from fleets import ARM, SETTINGS, SIDECAR, log_bytes
from raising import raises

from mindyn.applications.fleet import gather_one_log
from mindyn.applications.fleet.factor_files import Factor
from mindyn.applications.fleet.gather_all_logs import WORKER_DIED
from mindyn.applications.fleet.study_fleet import FleetStudy, study_fleet
from mindyn.foundation.errors import Code
from mindyn.foundation.processes.executors import WorkersLostError

ROBOTS, LOGS = (20, 10) if os.environ.get("MINDYN_WHOLE_FLEET") else (6, 4)
"""`make study NAME=fleet` tests all 200 logs; here there are as many as show the same."""
SOME = ROBOTS * LOGS // 4
PATTERN = "s3://logs/fleet/{robot_id}/{date}/*.parquet"


@pytest.fixture(scope="module")
def bucket(store) -> None:
    """The logs of all robots."""
    store.put_object(Bucket="logs", Key="fleet/logs.toml", Body=SIDECAR)
    for robot in range(ROBOTS):
        for k in range(LOGS):
            key = f"fleet/arm{robot:02d}/2026-{k + 1:02d}-01/run.parquet"
            store.put_object(Bucket="logs", Key=key, Body=log_bytes((robot, k), 150))


@pytest.fixture(scope="module")
def serial(bucket, tmp_path_factory) -> FleetStudy:  # noqa: ARG001
    return study_fleet(ARM, PATTERN, tmp_path_factory.mktemp("serial"), settings=SETTINGS)


@pytest.fixture
def cluster(bucket) -> Iterator[object]:  # noqa: ARG001
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None, silence_logs=60) as result,
        distributed.Client(result) as client,
    ):
        yield client


def values(result: FleetStudy) -> bytes:
    return b"".join(item.estimate.beta.tobytes() for item in (result.type, *result.robots) if item.estimate is not None)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_dask_over_a_store_gives_the_serial_bits_though_a_worker_dies(cluster, serial, tmp_path):
    killed: list[int] = []

    def kill_one(done: int, total: int) -> None:  # noqa: ARG001
        if done == SOME:
            killed.append(next(iter(cluster.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    executor = cluster.get_executor(retries=3)
    study = study_fleet(ARM, PATTERN, tmp_path, settings=SETTINGS, executor=executor, progress=kill_one)
    assert killed
    assert study.gathered == ROBOTS * LOGS
    assert not study.excluded
    assert values(study) == values(serial)
    for robot, other in zip(study.robots, serial.robots, strict=True):
        assert_close(robot.estimate.beta, other.estimate.beta, ORACLE)


def test_a_driver_that_is_killed_is_resumed_with_the_same_bits(serial, tmp_path):
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from fleets import *; "
        "from mindyn.applications.fleet.study_fleet import study_fleet; "
        f"study_fleet(ARM, {PATTERN!r}, {str(tmp_path)!r}, settings=SETTINGS)"
    )
    driver = subprocess.Popen([sys.executable, "-c", script])
    end = monotonic() + 60
    while len(list(tmp_path.glob("factors/*/??/*.npz"))) < SOME and monotonic() < end:
        sleep(0.01)
    driver.kill()
    driver.wait()
    before = len(list(tmp_path.glob("factors/*/??/*.npz")))
    assert SOME <= before < ROBOTS * LOGS
    study = study_fleet(ARM, PATTERN, tmp_path, settings=SETTINGS)
    assert study.gathered == ROBOTS * LOGS - before
    assert values(study) == values(serial)


def deadly(generation: bytes, task: gather_one_log.Task) -> Factor | gather_one_log.Excluded:
    """Gathers, but dies of one log; a stand-in for one that is larger than memory."""
    if "deadly" in task.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return gather_one_log.gather_or_exclude(generation, task)


@pytest.fixture
def few(tmp_path) -> Path:
    for name in ("a", "deadly"):
        (tmp_path / "arm1").mkdir(exist_ok=True)
        (tmp_path / "arm1" / f"{name}.parquet").write_bytes(log_bytes(name.encode()[0], 150))
    (tmp_path / "logs.toml").write_text(SIDECAR)
    return tmp_path


def test_a_log_that_kills_its_worker_is_excluded_by_name(few, monkeypatch):
    monkeypatch.setattr("mindyn.applications.fleet.gather_all_logs.gather_or_exclude", deadly)
    out, pattern = few / "out", f"{few}/{{robot_id}}/*.parquet"
    study = study_fleet(ARM, pattern, out, settings=SETTINGS, workers=2)
    assert [(Path(item.name).name, item.reason) for item in study.excluded] == [("deadly.parquet", WORKER_DIED)]
    assert study.type.logs == 1


def test_a_broken_executor_keeps_finished_logs_and_hints_how_to_continue(few, monkeypatch):
    monkeypatch.setattr("mindyn.applications.fleet.gather_all_logs.gather_or_exclude", deadly)
    out, pattern = few / "out", f"{few}/{{robot_id}}/*.parquet"
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, raises(WorkersLostError, Code.INVALID_VALUE) as result:
        study_fleet(ARM, pattern, out, settings=SETTINGS, executor=pool)
    kept = len(list(out.glob("factors/*/??/*.npz")))
    assert f"{kept} of 2 logs are gathered and kept in" in result.value.message
    assert "repeat the call" in result.value.hint
    monkeypatch.undo()
    with ThreadPoolExecutor(2) as threads:
        study = study_fleet(ARM, pattern, out, settings=SETTINGS, executor=threads)
    assert (study.gathered, study.type.logs) == (2 - kept, 2)
