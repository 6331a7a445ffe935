"""Equation of the observer of an external torque."""

from __future__ import annotations

import casadi

from mindyn.equations.chain import SX


def observer_step(p: SX, drift: SX, tau: SX, state: SX, gain: SX, dt: SX) -> SX:
    """Return (2 n, 1): the external torque r = gain (p - state), and the next state [De Luca & Mattone 2003].

    `state` holds the integral of tau + drift + r and starts as p; r follows the external torque with time constant
    1/gain.
    """
    r = gain * (p - state)
    return casadi.vertcat(r, state + dt * (tau + drift + r))
