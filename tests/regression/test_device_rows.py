"""Rows gathered as a GPU gathers them: its kernel's program and its steps, on the CPU, beside `gather`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from closeness import PUBLISHED_FILE, SAME_ALGEBRA, assert_close
from raising import raises

import mindyn
from mindyn.equations.loop_closure import home_closure
from mindyn.errors import Code, InputError, MissingExtraError
from mindyn.kernels.kernel import Kernel
from mindyn.logs.filters import extension_rows, lowpass, second_order_sections
from mindyn.regression import device, row_blocks, rows
from mindyn.regression.device_factors import information_of_factors, stand_in_factors
from mindyn.regression.device_job import rows_of_factors, write_device_job
from mindyn.regression.device_rows import rows_program
from mindyn.regression.friction import Friction
from mindyn.regression.gather_blocks import split_into_blocks
from mindyn.regression.information import add_information, solve
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import gather

FRICTIONS = (
    Friction(),
    Friction("tanh", 0.1),
    Friction("tanh", 0.1, ("stribeck", "cubic"), ("joint6",)),
    Friction("sign", 0.0, ("asymmetric",)),
    Friction("stop", 0.02, ("root",), ("joint2",)),
    Friction("tanh", 0.1, ("load", "driving"), (), tuple(np.linspace(0.5, 2.0, 58))),
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
    given = [samples.q, samples.qd, samples.qdd, samples.tau]
    if friction.direction == "stop":
        given.append(regressor.directions(samples.q, samples.qd, samples.segments, samples.rate_hz))
    rows = Kernel(rows_program(regressor))(*given)
    for joint, (row, arrays) in enumerate(zip(rows, parts, strict=True)):
        assert_close(row, np.hstack([*arrays, samples.tau[:, joint : joint + 1]]), SAME_ALGEBRA)


def solutions(information):
    weights = 1 / np.arange(1.0, 7.0)
    return solve(*information.stacked(weights))


def gathered(regressor, samples, chunk=device.CHUNK_ROWS):
    rows_of, arrays = stand_in_factors().rows_of(regressor), [samples.q, samples.qd, samples.qdd, samples.tau]
    factors = device.gather_on_device(np, rows_of, arrays, chunk)
    return information_of_factors(regressor, factors, len(samples))


@pytest.mark.parametrize("chunk", [200, 1 << 20])
def test_the_factors_solve_as_those_of_qr_do(chunk):
    """Rank-deficient blocks among them: joint 1 sees some parameters only together."""
    regressor, samples, _ = made()
    theirs, ours = gather(regressor, samples), gathered(regressor, samples, chunk)
    ranks = [np.linalg.matrix_rank(factor) for factor in theirs.factors]
    assert any(rank < len(factor) for rank, factor in zip(ranks, theirs.factors, strict=True))
    expected, result = solutions(theirs), solutions(ours)
    assert result.rank == expected.rank
    Y = regressor.dense(regressor.parts(samples.q, samples.qd, samples.qdd))
    assert_close(Y @ result.beta, Y @ expected.beta, PUBLISHED_FILE)
    deviations = np.sqrt(np.diag(expected.inverse)) * 0.1
    assert (np.abs(result.beta - expected.beta) <= 1e-6 * deviations).all()
    assert_close(ours.residuals(result.beta), theirs.residuals(expected.beta), PUBLISHED_FILE)
    assert ours.unidentifiable() == theirs.unidentifiable()


@pytest.mark.parametrize("guarded", [True, False])
def test_rows_far_from_all_others_lose_nothing(guarded, monkeypatch):
    """A joint that moves in few rows, and in none of those that columns are scaled by."""
    regressor, samples, _ = made(count=70_000)
    qd, qdd = samples.qd.copy(), samples.qdd.copy()
    qd[:, 5] = 0.0
    qdd[:, 5] = 0.0
    skipped = np.setdiff1d(np.arange(70_000), np.linspace(0, 69_999, device.SCALING_ROWS).astype(int))[:7]
    qd[skipped, 5] = 50.0
    qdd[skipped[2:], 5] = 1e3
    strange = replace(samples, qd=qd, qdd=qdd)
    if not guarded:
        monkeypatch.setattr(device, "REACH", np.inf)
    theirs, ours = gather(regressor, strange), gathered(regressor, strange, 1 << 14)
    expected, result = solutions(theirs), solutions(ours)
    near = np.abs(result.beta - expected.beta) <= 1e-9 * np.abs(expected.beta).max()
    assert (result.rank == expected.rank and bool(near.all())) is guarded


def wavy(friction, count=2400, seed=4):
    """Two segments of a smooth motion, with slow rows masked."""
    regressor, rng = made(friction, 60)[0], np.random.default_rng(seed)
    t, w = np.arange(count)[:, None] / 100.0, rng.uniform(2, 9, 6)
    q, qd, qdd = np.sin(t * w), w * np.cos(t * w), -(w**2) * np.sin(t * w)
    segments = (np.arange(count) > 900).astype(np.int64)
    Y = regressor.dense(regressor.parts(q, qd, qdd, regressor.directions(q, qd, segments, 100.0)))
    tau = Y @ rng.uniform(0.5, 2, regressor.count) + rng.normal(0, 0.1, (count, 6))
    return regressor, mindyn.Samples(regressor.joint_names, q, qd, qdd, tau, 100.0, segments, np.abs(qd) > 0.3)


@pytest.mark.parametrize(("cutoff", "step"), [(None, 1), (None, 3), (6.0, 2), (20.0, 1)])
@pytest.mark.parametrize("friction", FRICTIONS[-2:], ids=["stop", "load"])
def test_blocks_are_those_of_the_cpu(friction, cutoff, step, monkeypatch):
    """Filtered, decimated, in segments, slow rows left out, friction with a memory and with a load."""
    monkeypatch.setattr(row_blocks, "FILTERED_ROWS", 300)
    regressor, samples = wavy(friction)
    settings = mindyn.EquationSettings(filter_hz=cutoff, decimation=step, friction=friction)
    theirs = split_into_blocks(regressor, samples, settings, 5)
    ours = split_into_blocks(regressor, samples, settings, 5, factors_of=stand_in_factors())
    for our, other in zip(ours, theirs, strict=True):
        assert our.span == other.span
        assert our.information.counts == other.information.counts
        for R, expected in zip(our.information.factors, other.information.factors, strict=True):
            assert_close(R.T @ R, expected.T @ expected, SAME_ALGEBRA)
    expected, result = (
        solutions(add_information([block.information for block in blocks])) for blocks in (theirs, ours)
    )
    assert result.rank == expected.rank
    assert (np.abs(result.beta - expected.beta) <= 1e-6 * 0.1 * np.sqrt(np.diag(expected.inverse))).all()


def with_friction_everywhere(name):
    """The robot with a drive, and so friction, on every joint, passive ones of loops too."""
    robot = mindyn.load_robot(name)
    stated = {drive.joint: drive for drive in robot.drives}
    return replace(robot, drives=tuple(stated.get(joint, mindyn.Drive(joint)) for joint in robot.joint_names))


@pytest.mark.parametrize("friction", [Friction("tanh", 0.1, ("asymmetric",)), Friction("stop", 0.02, ("cubic",))])
@pytest.mark.parametrize("name", ["five_bar", "slider_crank", "palletiser"])
def test_robots_with_loops(name, friction):
    robot = with_friction_everywhere(name)
    regressor = Regressor(robot, friction)
    k, rng = regressor.joint_count, np.random.default_rng(5)
    home = home_closure(robot).home[[robot.joint_index(name) for name in robot.primary_names]]
    t = np.arange(400)[:, None] / 100.0
    w, phase = rng.uniform(1, 4, (2, k))
    q, qd, qdd = (0.1 * w**order * np.sin(w * t + phase + order * np.pi / 2) for order in range(3))
    tau = rng.normal(size=(400, k))
    samples = mindyn.Samples(regressor.joint_names, home + q, qd, qdd, tau, 100.0, np.zeros(400, int))
    settings = mindyn.EquationSettings(filter_hz=8.0, decimation=3, friction=friction)
    (ours,), (theirs,) = (
        [block.information for block in split_into_blocks(regressor, samples, settings, 1, **given)]
        for given in ({"factors_of": stand_in_factors()}, {})
    )
    for factor, R in zip(ours.factors, theirs.factors, strict=True):
        assert_close(factor.T @ factor, R.T @ R, PUBLISHED_FILE)


def test_a_block_without_a_row_is_empty():
    regressor, samples = wavy(FRICTIONS[0], 240)
    settings = mindyn.EquationSettings(filter_hz=6.0)
    ours = split_into_blocks(regressor, samples, settings, 24, factors_of=stand_in_factors())
    assert [our.information.counts for our in ours] == [
        block.information.counts for block in split_into_blocks(regressor, samples, settings, 24)
    ]
    assert ours[0].information.counts == (0,) * 6
    assert not np.any([R.any() for R in ours[0].information.factors])


RUNNER = """
#define __device__
#define __global__
#define __forceinline__ inline
struct Index { long long x, y; };
static Index threadIdx, blockIdx, blockDim;
%s
extern "C" void run(const Joint *joints, const long long *windows, const double *table, long long number,
                    long long widest, long long count, long long extension)
{
  blockDim.x = 32;
  for (blockIdx.y = 0; blockIdx.y < number; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x * 32 < count * widest; ++blockIdx.x)
      for (threadIdx.x = 0; threadIdx.x < 32; ++threadIdx.x) smooth_f64(joints, windows, table, count, extension);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
def test_the_filter_s_cuda_is_the_low_pass(tmp_path):
    """A C++ compiler builds the kernel, one thread after the other runs it: windows of any length, ends mirrored."""
    (tmp_path / "smooth.cpp").write_text(RUNNER % device.smoothing_source(2))
    command = ["g++", "-O1", "-w", "-shared", "-fPIC", "-o", "smooth.so", "smooth.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)
    run = ctypes.CDLL(str(tmp_path / "smooth.so")).run
    table, extension = device.smoothing_table(*second_order_sections(7.0, 100.0)), extension_rows(7.0, 100.0)
    ends = np.array([[0, 211], [211, 212], [212, 221], [221, 523]])
    given = [np.random.default_rng(2).normal(size=(523, width)).cumsum(axis=0) for width in (5, 9)]
    result, rooms = [x.copy() for x in given], [np.empty((len(ends), extension, x.shape[1])) for x in given]
    joints = np.array([(x.ctypes.data, room.ctypes.data, x.shape[1]) for x, room in zip(result, rooms, strict=True)])
    pointers = [ctypes.c_void_p(item.ctypes.data) for item in (joints, ends, table)]
    run(*pointers, *map(ctypes.c_longlong, (2, 9, len(ends), extension)))
    for filtered, x in zip(result, given, strict=True):
        for first, last in ends:
            assert_close(filtered[first:last], lowpass(x[first:last], 7.0, 100.0), SAME_ALGEBRA)


def test_what_a_gpu_cannot_gather_is_rejected(monkeypatch):
    regressor, samples, _ = made(count=60)
    with raises(InputError, Code.DISAGREEMENT, "joint1"):
        information_of_factors(regressor, [np.eye(2)] * 6, 10)
    if subprocess.run([sys.executable, "-c", "import cupy"], capture_output=True).returncode:
        with raises(MissingExtraError, Code.MISSING_PACKAGE, "cupy"):
            mindyn.build_rows(regressor.robot, samples, gpu=True)
    monkeypatch.setattr(rows, "gpu_factors", stand_in_factors)
    with raises(InputError, Code.UNSUPPORTED, "gpu"):
        mindyn.build_rows(regressor.robot, [samples], gpu=True)
    with ThreadPoolExecutor(1) as threads, raises(InputError, Code.UNSUPPORTED, "gpu"):
        mindyn.build_rows(regressor.robot, samples, gpu=True, executor=threads)


def test_factors_come_back_as_rows(tmp_path):
    robot = mindyn.load_robot("puma560")
    regressor, samples, _ = made(count=400)
    information = gathered(regressor, samples)
    factors = {f"R{k}": R for k, R in enumerate(information.factors)}
    np.savez(tmp_path / "factors.npz", rows=len(samples), **factors)
    estimate = mindyn.LeastSquares().fit(rows_of_factors(robot, tmp_path / "factors.npz"))
    expected = mindyn.LeastSquares().fit(mindyn.build_rows(robot, samples))
    assert_close(estimate.beta, expected.beta, PUBLISHED_FILE)
    np.savez(tmp_path / "other.npz", rows=3, R0=np.eye(3))
    with raises(InputError, Code.WRONG_FORMAT, str(tmp_path / "other.npz")):
        rows_of_factors(robot, tmp_path / "other.npz")
    with raises(InputError, Code.UNSUPPORTED, "decimation"):
        write_device_job(robot, tmp_path / "job", mindyn.EquationSettings(decimation=2))
    with raises(InputError, Code.UNSUPPORTED, "friction"):
        write_device_job(robot, tmp_path / "job", mindyn.EquationSettings(friction=Friction("stop", 0.1)))


def test_the_job_needs_numpy_alone_until_it_runs(tmp_path):
    write_device_job(mindyn.load_robot("puma560"), tmp_path / "job")
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == ["device.py", "rows.cu", "rows.json"]
    code = "import sys; sys.path.insert(0, 'job'); import device; print('mindyn' in sys.modules, device.REACH)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False")
