"""Rows gathered as a GPU gathers them: its kernel's program and its steps, on the CPU, beside `gather`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from closeness import PUBLISHED_FILE, SAME_ALGEBRA, assert_close

import mindyn
from mindyn.errors import InputError, MissingExtraError, RobotError
from mindyn.kernels.kernel import Kernel
from mindyn.regression import device
from mindyn.regression.device_job import (
    gather_on_gpu,
    gather_on_host,
    information_of_factors,
    rows_of_factors,
    rows_program,
    write_device_job,
)
from mindyn.regression.friction import Friction
from mindyn.regression.gathering import gather
from mindyn.regression.information import solve
from mindyn.regression.regressor import Regressor, with_estimated_drives

FRICTIONS = (
    Friction(),
    Friction("tanh", 0.1),
    Friction("tanh", 0.1, ("stribeck", "cubic"), ("joint6",)),
    Friction("sign", 0.0, ("asymmetric",)),
)


def made(friction=FRICTIONS[0], count=3000, seed=0):
    robot = mindyn.load_robot("puma560")
    regressor = Regressor(with_estimated_drives(robot), friction)
    rng = np.random.default_rng(seed)
    q, qd, qdd = rng.uniform(-2, 2, (3, count, 6))
    parts = regressor.parts(q, qd, qdd, regressor.directions(q, qd, np.zeros(count, np.int64), 100.0))
    Y = regressor.dense(parts)
    tau = Y @ rng.uniform(0.5, 2, regressor.count) + rng.normal(0, 0.1, (count, 6))
    return regressor, mindyn.Samples(regressor.joint_names, q, qd, qdd, tau, 100.0, np.zeros(count, int)), parts


@pytest.mark.parametrize("friction", FRICTIONS)
def test_the_kernel_has_the_rows_of_the_regressor(friction):
    regressor, samples, parts = made(friction, 40)
    rows = Kernel(rows_program(regressor))(samples.q, samples.qd, samples.qdd, samples.tau)
    for joint, (row, arrays) in enumerate(zip(rows, parts, strict=True)):
        assert_close(row, np.hstack([*arrays, samples.tau[:, joint : joint + 1]]), SAME_ALGEBRA)


def solutions(information):
    weights = 1 / np.arange(1.0, 7.0)
    return solve(*information.stacked(weights))


@pytest.mark.parametrize("chunk", [200, 1 << 20])
def test_the_factors_solve_as_those_of_qr_do(chunk):
    """Rank-deficient blocks among them: joint 1 sees some parameters only together."""
    regressor, samples, _ = made()
    theirs, ours = gather(regressor, samples), gather_on_host(regressor, samples, chunk)
    ranks = [np.linalg.matrix_rank(factor) for factor in theirs.factors]
    assert any(rank < len(factor) for rank, factor in zip(ranks, theirs.factors, strict=True))
    expected, found = solutions(theirs), solutions(ours)
    assert found.rank == expected.rank
    Y = regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd))
    assert_close(Y @ found.beta, Y @ expected.beta, PUBLISHED_FILE)
    deviations = np.sqrt(np.diag(expected.inverse)) * 0.1
    assert (np.abs(found.beta - expected.beta) <= 1e-6 * deviations).all()
    assert_close(ours.residuals(found.beta), theirs.residuals(expected.beta), PUBLISHED_FILE)
    assert ours.untold() == theirs.untold()


@pytest.mark.parametrize("guarded", [True, False])
def test_rows_far_from_all_others_lose_nothing(guarded, monkeypatch):
    """A joint that moves in few rows, and in none of those that columns are scaled by."""
    regressor, samples, _ = made(count=70_000)
    qd, qdd = samples.qd.copy(), samples.qdd.copy()
    qd[:, 5] = 0.0
    qdd[:, 5] = 0.0
    skipped = np.setdiff1d(np.arange(70_000), np.linspace(0, 69_999, device.SPREAD_ROWS).astype(int))[:7]
    qd[skipped, 5] = 50.0
    qdd[skipped[2:], 5] = 1e3
    strange = replace(samples, qd=qd, qdd=qdd)
    if not guarded:
        monkeypatch.setattr(device, "REACH", np.inf)
    theirs, ours = gather(regressor, strange), gather_on_host(regressor, strange, 1 << 14)
    expected, found = solutions(theirs), solutions(ours)
    near = np.abs(found.beta - expected.beta) <= 1e-9 * np.abs(expected.beta).max()
    assert (found.rank == expected.rank and bool(near.all())) is guarded


def test_what_a_gpu_cannot_gather_is_refused():
    regressor, samples, _ = made(count=60)
    with pytest.raises(InputError, match="stop operator has a memory"):
        rows_program(regressor.with_friction(Friction("stop", 0.1)))
    with pytest.raises(RobotError, match="rows on a GPU are of open trees"):
        rows_program(Regressor(mindyn.load_robot("palletiser")))
    masked = replace(samples, usable=np.arange(360).reshape(60, 6) % 7 > 0)
    with pytest.raises(InputError, match="not usable for some joints"):
        gather_on_host(regressor, masked)
    with pytest.raises(InputError, match="factor of joint 'joint1' has shape"):
        information_of_factors(regressor, [np.eye(2)] * 6, 10)
    if subprocess.run([sys.executable, "-c", "import cupy"], capture_output=True).returncode:
        with pytest.raises(MissingExtraError, match="needs CuPy"):
            gather_on_gpu(regressor, samples)


def test_factors_come_back_as_rows(tmp_path):
    robot = mindyn.load_robot("puma560")
    regressor, samples, _ = made(count=400)
    information = gather_on_host(regressor, samples)
    factors = {f"R{k}": R for k, R in enumerate(information.factors)}
    np.savez(tmp_path / "factors.npz", rows=len(samples), **factors)
    found = mindyn.LeastSquares().fit(rows_of_factors(robot, tmp_path / "factors.npz"))
    expected = mindyn.LeastSquares().fit(mindyn.rows_of(robot, samples))
    assert_close(found.beta, expected.beta, PUBLISHED_FILE)
    np.savez(tmp_path / "other.npz", rows=3, R0=np.eye(3))
    with pytest.raises(InputError, match="holds no factors of a device job"):
        rows_of_factors(robot, tmp_path / "other.npz")
    with pytest.raises(InputError, match="not made on a GPU"):
        write_device_job(robot, tmp_path / "job", mindyn.Treatment(decimation=2))


def test_the_job_needs_numpy_alone_until_it_runs(tmp_path):
    write_device_job(mindyn.load_robot("puma560"), tmp_path / "job")
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == ["device.py", "rows.cu", "rows.json"]
    code = "import sys; sys.path.insert(0, 'job'); import device; print('mindyn' in sys.modules, device.REACH)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False")
