"""How much later torque comes than motion: found over the whole range, and of one joint alone named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mindyn
from mindyn.identification.choosing import choose
from mindyn.logs.log import log_of_arrays
from mindyn.regression.treatment import Treatment

RATE_HZ = 200.0
MS = 1e-3


def recorded(delays_s, noise=0.02, seed=0):
    """A planar arm with much friction, whose torques are logged so much later than its motion."""
    robot = replace(mindyn.load_robot("planar2"), drives=(), extras=())
    rng = np.random.default_rng(seed)
    rates, (sines, cosines) = 2 * np.pi * np.arange(1, 6) / 9.3, rng.normal(0, 0.3, (2, 5, 2))

    def motion(time):
        angles = np.outer(time, rates)
        q = np.sin(angles) @ sines + np.cos(angles) @ cosines
        qd = (np.cos(angles) * rates) @ sines - (np.sin(angles) * rates) @ cosines
        return q, qd, -(np.sin(angles) * rates**2) @ sines - (np.cos(angles) * rates**2) @ cosines

    def torque(time):
        q, qd, qdd = motion(time)
        rigid = mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd)
        return rigid + rigid.std(axis=0) * (0.3 * np.tanh(qd / 0.02) + 0.2 * qd)

    time = np.arange(0, 16, 1 / RATE_HZ)
    tau = np.stack([torque(time - delay)[:, joint] for joint, delay in enumerate(delays_s)], axis=1)
    tau += noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    q, qd, _ = motion(time)
    return robot, log_of_arrays(robot.joint_names, time, q, tau, qd)


def chosen(delays_s):
    """Nothing is stated but that there is no parallel filter, which the delay does not depend on."""
    robot, log = recorded(delays_s)
    return choose(robot, [log], mindyn.LeastSquares(), Treatment(filter_hz=None, friction="auto"))


@pytest.mark.parametrize("milliseconds", [53, -30])
def test_a_long_delay_is_found(milliseconds):
    """Not a part of it that friction turning over too early makes up for."""
    found = chosen([milliseconds * MS] * 2)
    assert found.treatment.conditioning.delay_s == pytest.approx(milliseconds * MS, abs=1.5 * MS)
    assert not any("out of step" in note.sentence for note in found.notes)


def test_a_delay_of_one_joint_is_named():
    told = [note.sentence for note in chosen([0.0, 30 * MS]).notes if "out of step with each other" in note.sentence]
    assert len(told) == 1
    joints = dict(part.rsplit(" ", 2)[:2] for part in told[0].split("come ")[1].split(";")[0].split(", "))
    apart = float(joints["joint2"]) - float(joints["joint1"])
    assert apart == pytest.approx(30, abs=3)
