"""Step of the classical Runge-Kutta method (order 4) with dry friction, as a CasADi function.

The torque of dry friction does not depend on the sign of a speed, so that it does not switch back and forth at rest. In
every stage, it is the torque inside the Coulomb box for which the friction speeds s decay most nearly as sdot =
-DECAY_RATE s / dt:

    minimise lam^T A lam / 2 - (b + DECAY_RATE s / dt)^T lam   over   |lam| <= c

For fast motion, the torque is at the limit c sign(s), which is Coulomb's law with order 4. Slow motion (|s| < A c dt /
DECAY_RATE) is stopped and then held: a step reduces its speed to 0.27 of its value, and at rest sdot = 0 in all four
stages, so that it does not creep. While a motion is stopped, the torque may act along the motion for some steps, which
adds energy of the order of at most c |b| dt^2 at each stop. The minimum is approached by SWEEPS_PER_STAGE sweeps of
Gauss-Seidel in each stage, which start from the last torques; these torques are part of the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi

from mindyn.equations.catalogue import Function
from mindyn.equations.chain import SX
from mindyn.foundation.algebra.values import Array
from mindyn.motions.simulation.plant import Plant, plant_response


def sweep_gauss_seidel(A: SX, target: SX, c: Array | SX, lam: SX) -> SX:
    """Perform a sweep of projected Gauss-Seidel on: minimise lam^T A lam / 2 - target^T lam over |lam| <= c."""
    lam = casadi.SX(lam)
    for k in range(c.shape[0]):
        rest = target[k] - casadi.dot(A[k, :].T, lam)
        lam[k] = casadi.fmin(casadi.fmax(lam[k] + rest / A[k, k], -c[k]), c[k])
    return lam


DECAY_RATE = 1.5960716379833215
"""Minimiser x of the method's amplification of a decaying speed, 1 - x + x^2/2 - x^3/6 + x^4/24, which is 0.2706."""

SWEEPS_PER_STAGE = 3
"""Number of sweeps in each of the four stages: a PUMA 560 that friction holds under gravity is at rest, to rounding,
after 20 steps of 1 ms, 1e-10 rad from its start.
"""


@dataclass(frozen=True, slots=True)
class State:
    """State of a step: q, qd (n, 1), and the friction torques lam (m, 1) from which the sweeps start."""

    q: SX
    qd: SX
    lam: SX

    def moved(self, h: SX, rates: tuple[SX, SX], lam: SX) -> State:
        """Return the state after time h with these rates (dq/dt, dqd/dt)."""
        return State(self.q + h * rates[0], self.qd + h * rates[1], lam)


def step_function(plant: Plant, law: Function | None = None, beta: SX | None = None) -> Function:
    """Return the step (q, qd[, lam], tau, dt) -> (q_next, qd_next[, lam_next]) with tau held.

    With a `law`, tau is its value at the start of the step; the law's inputs other than q and qd replace the input tau,
    and tau is an additional output.

    With the symbols `beta` of a candidate plant, beta is an input. If the input refresh is 1, the law computes a new
    torque; if it is 0, the input held continues. Outputs are held_next in place of tau, and qdd and the least pivot of
    M at the start.
    """
    n = plant.joint_count
    sizes = {"q": plant.position_count, "qd": n, "lam": len(plant.rows), "held": 0 if beta is None else n}
    symbols: dict[str, SX] = {name: casadi.SX.sym(name, size) for name, size in sizes.items() if size}
    if beta is not None:
        symbols |= {"beta": beta, "refresh": casadi.SX.sym("refresh")}
    state = State(symbols["q"], symbols["qd"], symbols.get("lam", casadi.SX(0, 1)))
    if law is None:
        tau = symbols["tau"] = casadi.SX.sym("tau", n)
    else:
        tau = law_torque(law, symbols, plant.primary)
    dt = symbols["dt"] = casadi.SX.sym("dt")
    if beta is not None:
        tau = casadi.if_else(symbols["refresh"], tau, symbols["held"])
    after = runge_kutta_step(plant, state, tau, dt)
    results = {"q_next": after.q, "qd_next": after.qd} | ({"lam_next": after.lam} if "lam" in symbols else {})
    if beta is not None:
        (_, qdd), _ = state_slope(plant, state, tau, dt)
        pivot = casadi.mmin(plant_response(plant, state.q, state.qd, tau).D)
        results |= {"held_next": tau, "qdd": qdd, "pivot": pivot}
    elif law is not None:
        results["tau"] = tau
    outputs = [casadi.densify(result) for result in casadi.cse([*results.values()])]
    return casadi.Function("step", [*symbols.values()], outputs, [*symbols], [*results])


def slope_function(plant: Plant) -> Function:
    """Return (q, qd, lam, tau, dt) -> qdd, lam of the first stage of a step."""
    n = plant.joint_count
    sizes = {"q": plant.position_count, "qd": n, "lam": len(plant.levels), "tau": n, "dt": 1}
    q, qd, lam, tau, dt = symbols = [casadi.SX.sym(name, size) for name, size in sizes.items()]
    (_, qdd), after = state_slope(plant, State(q, qd, lam), tau, dt)
    results = [casadi.cse(qdd), casadi.cse(after)]
    return casadi.Function("slope", symbols, results, [*sizes], ["qdd", "lam_next"])


def law_torque(law: Function, symbols: dict[str, SX], primary: list[int]) -> SX:
    """Return the torques of the law at positions of the primary joints, or of all joints if the law takes them.

    Add the other inputs of the law to the symbols.
    """
    inputs = []
    for k, name in enumerate(law.name_in()):
        symbol = symbols.setdefault(name, casadi.SX.sym(name, *law.size_in(k)))
        inputs.append(symbol[primary] if name == "q" and law.size_in(k) != symbol.shape else symbol)
    return law(*inputs)


def runge_kutta_step(plant: Plant, state: State, tau: SX, dt: SX) -> State:
    """Return the state after a step of dt with a held torque."""
    k1, lam = state_slope(plant, state, tau, dt)
    k2, lam = state_slope(plant, state.moved(dt / 2, k1, lam), tau, dt)
    k3, lam = state_slope(plant, state.moved(dt / 2, k2, lam), tau, dt)
    k4, lam = state_slope(plant, state.moved(dt, k3, lam), tau, dt)
    mean = [(a + 2 * (b + c) + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
    return state.moved(dt, (mean[0], mean[1]), lam)


def state_slope(plant: Plant, state: State, tau: SX, dt: SX) -> tuple[tuple[SX, SX], SX]:
    """Return (dq/dt, dqd/dt) and the friction torques."""
    if not plant.has_friction:
        qdd = plant.equation("forward_dynamics")(state.q, state.qd, tau)
        return (plant.rates(state.q, state.qd), qdd), state.lam
    here = plant_response(plant, state.q, state.qd, tau)
    target = here.b + (DECAY_RATE / dt) * (here.F @ state.qd)
    lam = state.lam
    for _ in range(SWEEPS_PER_STAGE):
        lam = sweep_gauss_seidel(here.A, target, plant.levels, lam)
    return (plant.rates(state.q, state.qd), here.free - here.W @ lam), lam
