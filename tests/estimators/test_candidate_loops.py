"""Simulated loops of candidates: the motion of the simulator, first candidates, and errors."""

from __future__ import annotations

from dataclasses import replace

import casadi
import numpy as np
import pytest
from closed_loops import CONTROL_HZ, driven_arm, encoder_samples, simulate_tracking, sines, tracking
from closeness import SAME_ALGEBRA, assert_close
from equations import equations
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.closed_loop_instruments import ClosedLoopInstruments, LoopReplay
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.motions.simulation.closed_loop import ClosedLoop
from mindyn.motions.simulation.controllers import ControlLaw
from mindyn.regression.regressor import Regressor

LOOP = {"control_rate_hz": CONTROL_HZ, "initial": "reference"}


def test_the_loop_is_that_of_simulate():
    robot = driven_arm(2, joints=3)
    controller = tracking(robot, sines(robot))
    motion = simulate_tracking(robot, controller, method="fixed")
    base = Regressor(robot).base
    loop = ClosedLoop(robot, base, controller, rate_hz=100.0, rows=len(motion.t), control_rate_hz=CONTROL_HZ)
    process = loop.run(base.values[None], motion.q[0], motion.qd[0])
    for name in ("q", "qd", "qdd", "tau"):
        assert_close(getattr(process, name)[0], getattr(motion, name), 100 * SAME_ALGEBRA)


def test_a_candidate_that_runs_away_is_rejected():
    robot = driven_arm(0)
    controller = tracking(robot, sines(robot))
    samples = simulate_tracking(robot, controller, method="fixed").samples()
    true = LeastSquares().fit(equations(robot, samples))
    with raises(InputError, Code.NOT_CONVERGED, "given"):
        ClosedLoopInstruments(controller, model=true.with_values(beta=-true.base.values), **LOOP).fit(
            equations(robot, samples)
        )
    with raises(InputError, Code.NOT_CONVERGED, "given"):
        ClosedLoopInstruments(controller, model=true.with_values(beta=0.02 * true.base.values), **LOOP).fit(
            equations(robot, samples)
        )


def test_least_squares_that_noise_made_useless_is_replaced_by_regular_values():
    for seed in range(3):
        robot = driven_arm(seed)
        controller = tracking(robot, sines(robot))
        noisy = encoder_samples(robot, simulate_tracking(robot, controller, method="fixed"), position_noise=1e-2)
        rows = equations(robot, noisy)
        first = LoopReplay(ClosedLoopInstruments(controller, **LOOP), rows.regressor, noisy).first(
            LeastSquares().fit(rows), None
        )
        assert first.source == "regular values"
        assert first.motion.stable.all()
        assert np.abs(first.motion.q[0] - noisy.q).max() < 0.1


def test_what_it_cannot_treat_is_rejected_by_name():
    robot = driven_arm(0)
    controller = tracking(robot, sines(robot))
    samples = simulate_tracking(robot, controller, method="fixed", seconds=1.0).samples()
    for settings, code, subject in (
        ({"initial": "guess"}, Code.UNKNOWN_NAME, "guess"),
        ({"passes": 0}, Code.OUT_OF_RANGE, "passes"),
        ({"passes": 2.5}, Code.OUT_OF_RANGE, "passes"),
    ):
        with raises(InputError, code, subject):
            ClosedLoopInstruments(controller, **settings)
    with raises(InputError, Code.INVALID_VALUE, "control_rate_hz"):
        ClosedLoopInstruments(controller, control_rate_hz=130.0).fit(equations(robot, samples))
    with raises(InputError, Code.OUT_OF_RANGE, "control_rate_hz"):
        ClosedLoopInstruments(controller, control_rate_hz=0.0).fit(equations(robot, samples))
    for unknown in (np.add, [controller]):
        with raises(InputError, Code.WRONG_TYPE, "controller"):
            ClosedLoopInstruments(unknown).fit(equations(robot, samples))
    cut = replace(samples, segments=(np.arange(len(samples)) // 50).astype(np.int64))
    with raises(InputError, Code.UNSUPPORTED, "segments"):
        ClosedLoopInstruments(controller).fit(equations(robot, cut))
    with raises(InputError, Code.WRONG_SHAPE, "law"):
        ClosedLoopInstruments(tracking(driven_arm(0, joints=3), sines(driven_arm(0, joints=3)))).fit(
            equations(robot, samples)
        )
    q, qd = casadi.SX.sym("q", 2), casadi.SX.sym("qd", 2)
    law = casadi.Function("law", [q, qd], [-q - qd], ["q", "qd"], ["tau"])
    with raises(InputError, Code.MISSING_VALUE, "q_r"):
        ClosedLoopInstruments(ControlLaw(law, lambda _times: {}), initial="reference").fit(equations(robot, samples))


@pytest.mark.parametrize(
    ("signals", "code", "subject"),
    [
        (lambda _times: {"gain": 1.0}, Code.MISSING_VALUE, "aim"),
        (lambda times: {"aim": np.zeros((len(times), 1))}, Code.WRONG_SHAPE, "aim"),
        (lambda times: {"aim": np.zeros(len(times))}, Code.WRONG_SHAPE, "aim"),
        (lambda times: {"aim": np.zeros((len(times) - 1, 2))}, Code.WRONG_SHAPE, "aim"),
        (lambda times: {"aim": np.full((len(times), 2), np.nan)}, Code.NOT_FINITE, "signal 'aim'"),
        (lambda times: {"aim": np.zeros((len(times), 2)), "q_r": np.zeros((1, 2))}, Code.WRONG_SHAPE, "q_r"),
    ],
)
def test_signals_that_do_not_fit_their_law_are_rejected(signals, code, subject):
    """The compiled loop reads them without looking: a column or row too few would be memory of something else."""
    robot = driven_arm(0)
    samples = simulate_tracking(robot, tracking(robot, sines(robot)), method="fixed", seconds=1.0).samples()
    q, qd, aim = (casadi.SX.sym(name, 2) for name in ("q", "qd", "aim"))
    law = casadi.Function("law", [q, qd, aim], [aim - q - qd], ["q", "qd", "aim"], ["tau"])
    with raises(InputError, code, subject):
        ClosedLoopInstruments(ControlLaw(law, signals)).fit(equations(robot, samples))


def test_laws_that_the_loop_cannot_take_are_rejected():
    robot = driven_arm(0)
    samples = simulate_tracking(robot, tracking(robot, sines(robot)), method="fixed", seconds=1.0).samples()
    q, other = casadi.SX.sym("q", 2), casadi.SX.sym("other", 2)
    for inputs, outputs, names, code, subject in (
        ([q], [-q, q], ["q"], Code.WRONG_SHAPE, "law"),
        ([q, other], [other - q], ["q", "held"], Code.DUPLICATE, "held"),
        ([other, q], [other - q], ["position", "qd"], Code.MISSING_VALUE, "position"),
    ):
        law = casadi.Function("law", inputs, outputs, names, ["tau", "more"][: len(outputs)])
        with raises(InputError, code, subject):
            ClosedLoopInstruments(ControlLaw(law, lambda _times: {})).fit(equations(robot, samples))
