"""Equations of controllers: Slotine and Li's torque and regressor, and an observer of external torque."""

from __future__ import annotations

from collections.abc import Callable

import casadi

from mindyn.equations.chain import SX

Torques = Callable[[SX, SX], SX]
"""Inverse dynamics (qd, qdd) -> tau at a fixed q."""


def slotine_li_torques(torques: Torques, qd: SX, qd_r: SX, qdd_r: SX) -> SX:
    """Return M(q) qdd_r + C(q, qd) qd_r + G(q) with C from Christoffel's symbols, so that Mdot - 2 C is skew-symmetric.

    The velocity torques are a quadratic form c(qd) = C(q, qd) qd of a symmetric bilinear form, so C(q, qd) qd_r is half
    the derivative of c at qd along qd_r [Slotine & Li 1987].
    """
    rest = casadi.SX(*qd.shape)
    return torques(rest, qdd_r) + casadi.jtimes(torques(qd, rest), qd, qd_r) / 2


def observer_step(p: SX, drift: SX, tau: SX, state: SX, gain: SX, dt: SX) -> SX:
    """Return (2 n, 1): the external torque r = gain (p - state), and the next state [De Luca & Mattone 2003].

    `state` holds the integral of tau + drift + r and starts as p; r follows the external torque with time constant
    1/gain.
    """
    r = gain * (p - state)
    return casadi.vertcat(r, state + dt * (tau + drift + r))
