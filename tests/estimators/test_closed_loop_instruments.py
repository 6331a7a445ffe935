"""Closed-loop instruments: recovery, and no bias where differentiated encoders bias least squares."""

from __future__ import annotations

import numpy as np
import pytest
from closed_loops import CONTROL_HZ, driven_arm, encoder_samples, simulate_tracking, sines, tracking
from closeness import assert_close
from equations import equations
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.closed_loop_instruments import ClosedLoopInstruments
from mindyn.identification.estimators.least_squares import LeastSquares

LOOP = {"control_rate_hz": CONTROL_HZ, "initial": "reference"}
RECOVERY = 1e-8


@pytest.mark.parametrize("seed", range(3))
def test_recovers_arms_without_noise_from_rough_instruments(seed):
    robot = driven_arm(seed, coulomb=0.0)
    controller = tracking(robot, sines(robot, seed))
    samples = simulate_tracking(robot, controller).samples()
    plain = LeastSquares().fit(equations(robot, samples))
    rough = plain.with_values(beta=1.1 * plain.base.values)
    estimate = ClosedLoopInstruments(controller, rough, passes=2, **LOOP).fit(equations(robot, samples))
    assert_close(estimate.beta, estimate.base.values, RECOVERY)


def test_encoder_noise_biases_least_squares_but_not_closed_loop_instruments():
    robot = driven_arm(1, joints=3, coulomb=0.3)
    controller = tracking(robot, sines(robot))
    motion = simulate_tracking(robot, controller, method="fixed", seconds=20.0, rate_hz=100.0)
    fits = {"plain": [], "iv": []}
    for seed in range(8):
        noisy = encoder_samples(robot, motion, position_noise=1e-3, torque_noise=0.1, seed=seed)
        fits["plain"].append(LeastSquares().fit(equations(robot, noisy)))
        fits["iv"].append(ClosedLoopInstruments(controller, **LOOP).fit(equations(robot, noisy)))
    clean = simulate_tracking(robot, tracking(robot, sines(robot, 9)), method="fixed", seconds=5.0).samples()
    moving = (np.abs(clean.qd) > 0.05).all(axis=1)
    wrong = {}
    for name, ours in fits.items():
        mean = np.mean([our.predict(clean) for our in ours], axis=0)
        wrong[name] = np.linalg.norm((mean - clean.tau)[moving]) / np.linalg.norm(clean.tau[moving])
    assert wrong["plain"] > 0.05
    assert wrong["iv"] < 0.15 * wrong["plain"]
    assert all(item.provenance.notes["settled"] for item in fits["iv"])


def test_models_that_cannot_be_simulated_are_rejected():
    robot = driven_arm(0)
    controller = tracking(robot, sines(robot))
    samples = simulate_tracking(robot, controller, method="fixed", seconds=1.0).samples()
    plain = LeastSquares().fit(equations(robot, samples))
    with raises(InputError, Code.NOT_CONVERGED, "given"):
        ClosedLoopInstruments(controller, plain.with_values(beta=-plain.base.values), **LOOP).fit(
            equations(robot, samples)
        )
    with raises(InputError, Code.OUT_OF_RANGE, "passes"):
        ClosedLoopInstruments(controller, passes=0)
    with raises(InputError, Code.UNKNOWN_NAME, "guess"):
        ClosedLoopInstruments(controller, initial="guess").fit(equations(robot, samples))
