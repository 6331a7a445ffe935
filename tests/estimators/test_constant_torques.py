"""A joint whose torque is zero, or one value, in every row: no estimator predicts more for it than the arm needs.

A dead sensor, a joint without a motor. The other joints are fitted as if the joint were not in the log, or as plain
least squares fits them; what they leave open is decided by the joint's own rows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_close
from recovered import smooth_samples
from robots import random_robot, with_random_drives

import mindyn
from mindyn.foundation.errors import InputError
from mindyn.foundation.findings import Kind
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.fits.physically_consistent import PhysicallyConsistent
from mindyn.identification.method_names import METHODS
from mindyn.regression.build_rows import build_rows
from mindyn.regression.settings import EquationSettings

METHODS_AND_DEFAULT = {
    "joint": LeastSquares(),
    "correlated": LeastSquares(covariance="correlated"),
    **METHODS,
    "consistent": PhysicallyConsistent(),
}


def random_arm(seed):
    """Arms with and without drives."""
    arm = random_robot(seed, joints=2 + seed % 3, tree=False, special=False)
    return with_random_drives(arm, seed) if seed % 2 else arm


ARMS = {"planar2": lambda: mindyn.load_robot("planar2")} | {
    f"random{seed}": lambda seed=seed: random_arm(seed) for seed in (1, 2, 3, 4)
}


def rms(array):
    return np.sqrt((array**2).mean(axis=0))


def draw_samples(arm, joint, constant, noise=0.0):
    """Samples of a smooth motion, and the same with one torque that never changes."""
    whole = smooth_samples(arm, count=2000, seed=1)
    tau = whole.tau + noise * rms(whole.tau) * np.random.default_rng(1).normal(size=whole.tau.shape)
    dead = tau.copy()
    dead[:, joint] = constant
    return replace(whole, tau=tau), replace(whole, tau=dead)


CASES = [
    pytest.param(name, method, (0.0, 2.5)[(k + j) % 2], marks=pytest.mark.full if (k + j) // 2 % 2 else ())
    for k, name in enumerate(ARMS)
    for j, method in enumerate(METHODS_AND_DEFAULT)
]
"""Every method on every arm; every arm and every method with both torques, also without the cases of `make full`."""


@pytest.mark.parametrize(("name", "method", "constant"), CASES)
def test_predictions_are_bounded(name, method, constant):
    arm, estimator = ARMS[name](), METHODS_AND_DEFAULT[method]
    for joint in range(arm.joint_count):
        whole, dead = draw_samples(arm, joint, constant, noise=1e-3)
        equation_settings = estimator.settings_for(arm, EquationSettings(drive_parameters="stated"))
        try:
            estimate = estimator.fit(build_rows(arm, dead, equation_settings))
        except InputError:
            continue
        plain = LeastSquares(weights="ordinary").fit(
            build_rows(arm, dead, replace(equation_settings, base_form="structural"))
        )
        largest = np.maximum(rms(plain.predict(dead)), rms(whole.tau))
        predicted = rms(estimate.predict(dead))
        assert predicted[joint] <= 2 * largest[joint] + abs(constant)
        if method in ("last-link-first", "energy"):
            continue  # they do not weigh joints: torque that is missing at one of them is missing at others
        others = np.arange(arm.joint_count) != joint
        unexplained = rms(estimate.predict(dead) - whole.tau)[others] / rms(whole.tau)[others]
        by_plain = rms(plain.predict(dead) - whole.tau)[others] / rms(whole.tau)[others]
        assert (unexplained <= np.maximum(0.02, 2 * by_plain)).all()


def write_run(folder, arm, samples):
    """Write samples as a log; return its path, and how its columns are described."""
    time = np.arange(len(samples.q)) / samples.rate_hz
    header = ",".join(["time", *(f"{signal}_{name}" for signal in ("q", "tau") for name in arm.joint_names)])
    path = folder / "run.csv"
    np.savetxt(path, np.column_stack([time, samples.q, samples.tau]), delimiter=",", header=header, comments="")
    stated = {
        "columns": {
            "time": "time",
            "position": [f"q_{name}" for name in arm.joint_names],
            "torque": [f"tau_{name}" for name in arm.joint_names],
        },
        "units": {"time": "s", "position": "rad", "torque": "N m"},
        "side": "joint",
    }
    return path, stated


@pytest.mark.parametrize(("joint", "constant"), [(0, -7.0), (1, 2.5)])
def test_a_stream_gives_a_constant_torque_as_little_weight_as_a_log_in_memory(tmp_path, joint, constant):
    arm = mindyn.load_robot("planar2")
    path, stated = write_run(tmp_path, arm, draw_samples(arm, joint, constant, noise=1e-3)[1])
    settings = EquationSettings(mindyn.Conditioning())
    logs = mindyn.read_log(path, arm, **stated), mindyn.scan_log(path, arm, **stated)
    whole, streamed = (mindyn.identify(arm, log, LeastSquares(), settings) for log in logs)
    assert_close(streamed.beta, whole.beta, ORACLE)


@pytest.mark.parametrize(("joint", "constant"), [pytest.param(0, 0.0, marks=pytest.mark.full), (1, 2.5)])
def test_identify_bounds_and_reports_a_constant_torque_in_memory_streamed_and_distributed(tmp_path, joint, constant):
    arm = mindyn.load_robot("planar2")
    whole, dead = draw_samples(arm, joint, constant, noise=1e-3)
    path, stated = write_run(tmp_path, arm, dead)
    held = mindyn.read_log(path, arm, **stated)
    scanned = mindyn.scan_log(path, arm, **stated)
    with ThreadPoolExecutor(2) as pool:
        estimates = [
            mindyn.identify(arm, held),
            mindyn.identify(arm, held, LeastSquares()),
            mindyn.identify(arm, scanned),
            mindyn.identify(arm, scanned, LeastSquares(), executor=pool),
        ]
    for estimate in estimates:
        predicted = rms(estimate.predict(whole))
        assert predicted[joint] <= 2 * rms(whole.tau)[joint] + constant
        assert rms(estimate.predict(whole) - whole.tau)[1 - joint] < 0.1 * rms(whole.tau)[1 - joint]
        assert not estimate.data.identifiable.holds
        assert any(
            arm.joint_names[joint] in finding.joints
            for finding in estimate.findings
            if finding.kind == Kind.CONSTANT_TORQUE
        )


@pytest.mark.parametrize("seed", range(4))
def test_a_passive_joint_that_fits_is_fitted_like_plain_least_squares(seed):
    """Massless after its axis: the last joint needs no torque, which plain least squares fits to rounding."""
    arm = random_robot(seed, joints=3, tree=False, special=False)
    arm = replace(arm, links=(*arm.links[:-1], replace(arm.links[-1], phi=np.zeros(10))))
    samples = smooth_samples(arm, count=800, seed=seed)
    assert not samples.tau[:, -1].any()
    rows = build_rows(arm, samples, EquationSettings(drive_parameters="stated"))
    plain, weighted = (LeastSquares(weights=kind).fit(rows) for kind in ("ordinary", "joint"))
    size = np.abs(samples.tau).max()
    for estimate in (plain, weighted):
        assert np.abs(estimate.predict(samples) - samples.tau).max() < 1e-9 * size
