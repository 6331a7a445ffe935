"""Where logs are gathered changes no bit: here, in threads, in other processes; of scans no row travels."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.processes.executors import WorkersLostError
from mindyn.regression.regressor import build_regressor, with_estimated_drives

STATED = {
    "columns": {"time": "t", "position": "q{i}", "torque": "tau{i}"},
    "units": {"time": "s", "position": "rad", "torque": "N m"},
    "side": "joint",
}
SETTINGS = mindyn.EquationSettings(mindyn.Conditioning(motion_hz=20.0, delay_s=0.0), 8.0, 4)


@pytest.fixture(scope="module")
def arm() -> mindyn.Robot:
    return mindyn.load_robot("planar2")


@pytest.fixture(scope="module")
def files(arm: mindyn.Robot, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five logs of unequal length, one of them shorter than its filter's edges."""
    folder, created = tmp_path_factory.mktemp("logs"), []
    model = mindyn.compile_model(arm, with_drives=True)
    for k, rows in enumerate((4000, 1500, 20, 2500, 3000)):
        rng = np.random.default_rng(k)
        t = np.arange(rows) / 200
        w, a = rng.uniform(1, 5, (3, 2)), rng.uniform(0.2, 0.6, (3, 2))
        angle = t[:, None, None] * w
        q = (a * np.sin(angle)).sum(axis=1)
        motion = (a * w * np.cos(angle)).sum(axis=1), -(a * w**2 * np.sin(angle)).sum(axis=1)
        tau = model.inverse_dynamics(q, *motion) + rng.normal(scale=0.2, size=q.shape)
        columns = {"t": t, "q1": q[:, 0], "q2": q[:, 1], "tau1": tau[:, 0], "tau2": tau[:, 1]}
        pl.DataFrame(columns).write_parquet(folder / f"{k}.parquet")
        created.append(folder / f"{k}.parquet")
    return created


class Here(Executor):
    """Executor that runs each task at once."""

    def submit(self, function, /, *args, **given):  # type: ignore[no-untyped-def]
        done: Future[object] = Future()
        try:
            done.set_result(function(*args, **given))
        except Exception as error:
            done.set_exception(error)
        return done


def bits(result: mindyn.Estimate) -> bytes:
    return result.beta.tobytes() + result.covariance.tobytes()


@pytest.mark.parametrize("read", [mindyn.read_log, mindyn.scan_log])
def test_the_bits_do_not_depend_on_where_logs_are_gathered(arm, files, read):
    logs = [read(path, arm, metadata=STATED) for path in files]
    fit = lambda executor: mindyn.identify(arm, logs, mindyn.LeastSquares(), SETTINGS, executor=executor)  # noqa: E731
    alone = fit(None)
    result = [fit(Here())]
    with ThreadPoolExecutor(3) as threads, ProcessPoolExecutor(2, get_context("spawn")) as processes:
        result += [fit(threads), fit(processes)]
    assert {bits(item) for item in result} == {bits(alone)}
    assert {item.provenance.notes["samples"] for item in result} == {alone.provenance.notes["samples"]}
    assert {item.data.sources for item in result} == {alone.data.sources}
    assert len(alone.data.sources) == len(files)


def test_an_automatic_choice_works_with_an_executor(arm, files):
    logs = [mindyn.scan_log(path, arm, metadata=STATED) for path in files]
    with ThreadPoolExecutor(2) as threads:
        estimate = mindyn.identify(arm, logs, settings=replace(SETTINGS, equations_hz="auto"), executor=threads)
    assert np.isfinite(estimate.beta).all()
    assert estimate.provenance.notes["covariance"] == "white"


def test_blocks_do_not_depend_on_the_other_logs(arm, files):
    scans = [mindyn.scan_log(path, arm, metadata=STATED) for path in files]
    together = mindyn.build_rows(arm, scans, SETTINGS).blocks
    for number, scan in enumerate(scans):
        expected = [block.information for block in together if block.log == number]
        if number == 2:
            assert sum(expected[0].counts) == 0  # shorter than the filter's edges
            continue
        alone = [block.information for block in mindyn.build_rows(arm, scan, SETTINGS).blocks]
        pairs = zip(expected, alone, strict=True)
        assert all(a.tobytes() == b.tobytes() for x, y in pairs for a, b in zip(x.factors, y.factors, strict=True))


def test_estimators_that_need_samples_raise_with_an_executor(arm, files):
    log = mindyn.read_log(files[0], arm, metadata=STATED)
    with raises(InputError, Code.UNSUPPORTED, "executor"):
        mindyn.identify(arm, log, mindyn.LeastSquares(robust=True), SETTINGS, executor=Here())
    with raises(InputError, Code.WRONG_TYPE, "executor"):
        mindyn.identify(arm, log, mindyn.LeastSquares(), SETTINGS, executor=4)


def test_a_worker_s_error_reads_as_here(arm, files, tmp_path):
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(files[0].read_bytes())
    scans = [mindyn.scan_log(path, arm, metadata=STATED) for path in (files[1], damaged)]
    resolved = mindyn.build_rows(arm, scans[0], SETTINGS).settings
    damaged.write_bytes(files[0].read_bytes()[:2000])
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as processes,
        raises(mindyn.MindynError, Code.UNREADABLE, "damaged.parquet") as there,
    ):
        _ = mindyn.build_rows(arm, scans, resolved, executor=processes).blocks
    assert type(there.value).__name__ == "LogError"
    assert there.value.message.startswith("damaged.parquet cannot be read as Parquet")
    assert there.value.hint == "is the copy complete?"


def test_an_executor_that_was_shut_down_is_reported(arm, files):
    threads = ThreadPoolExecutor(1)
    threads.shutdown()
    scan = mindyn.scan_log(files[0], arm, metadata=STATED)
    with raises(WorkersLostError, Code.INTERNAL, "executor"):
        mindyn.identify(arm, scan, mindyn.LeastSquares(), SETTINGS, executor=threads)


@pytest.mark.parametrize("base_form", ["structural", "lin", "numeric"])
def test_regressors_and_models_pickle_as_robot_and_options(base_form):
    robot = mindyn.load_robot("puma560")
    regressor = build_regressor(with_estimated_drives(robot), mindyn.EquationSettings(base_form=base_form))
    rng = np.random.default_rng(0)
    motion = rng.normal(size=(3, 5, 6))
    sent = pickle.dumps(regressor)
    again = pickle.loads(sent)
    assert again.names == regressor.names
    assert again.dense(again.parts(*motion)).tobytes() == regressor.dense(regressor.parts(*motion)).tobytes()
    model = mindyn.compile_model(robot, with_drives=True)
    tau = model.inverse_dynamics(*motion)
    sent = pickle.dumps(model)
    assert len(sent) < 200_000
    assert pickle.loads(sent).inverse_dynamics(*motion).tobytes() == tau.tobytes()


def test_kernels_pickle(arm):
    assert pickle.loads(pickle.dumps(mindyn.compile_model(arm).kernel("inverse_dynamics"))).input_shapes == ((2,),) * 3
