"""One step of the classical Runge-Kutta method (order 4), as a CasADi function over the whole step.

Dry friction has no chatter because its torque never depends on the sign of a speed. In every stage it is the torque
inside the Coulomb box that comes closest to letting the friction speeds s decay as sdot = -RATE s / dt:

    minimise lam^T A lam / 2 - (b + RATE s / dt)^T lam   over   |lam| <= c

Fast friction saturates at c sign(s): Coulomb's law, and order 4. Slow friction (|s| < A c dt / RATE) is brought to
rest and held: a step shrinks its speed to 0.27 of what it was, and at rest sdot = 0 in all four stages, so it does not
creep. In that thin layer the torque may point along the motion for some steps, which gives back energy, at each stop
of the order of c |b| dt^2 at most. The minimum is approached by SWEEPS of Gauss-Seidel in each stage, started from the
last torques, which are part of the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi

from mindyn.equations.catalogue import Function
from mindyn.equations.chain import SX
from mindyn.simulation.friction import sweep_gauss_seidel
from mindyn.simulation.plant import Mechanism, Plant, plant_response

DECAY_RATE = 1.5960716379833215
"""Where the method's amplification of a decaying speed, 1 - x + x^2/2 - x^3/6 + x^4/24, is least: 0.2706."""

SWEEPS_PER_STAGE = 3
"""In each of the four stages: a PUMA 560 that friction holds under gravity is still, to rounding, after 20 steps of
1 ms, 1e-10 rad from where it was.
"""


@dataclass(frozen=True, slots=True)
class State:
    """q, qd (n, 1), and the friction torques lam (m, 1) to start from."""

    q: SX
    qd: SX
    lam: SX

    def moved(self, h: SX, rates: tuple[SX, SX], lam: SX) -> State:
        """After time h with these rates (dq/dt, dqd/dt)."""
        return State(self.q + h * rates[0], self.qd + h * rates[1], lam)


def step_function(plant: Plant, law: Function | None = None) -> Function:
    """The step (q, qd[, lam], tau, dt) -> (q_next, qd_next[, lam_next]) with tau held.

    With a `law`, tau is its value at the beginning of the step; the law's inputs besides q and qd take tau's place
    among the inputs, and tau is a further output.
    """
    n, m = plant.joint_count, len(plant.levels)
    symbols = {"q": casadi.SX.sym("q", plant.position_count), "qd": casadi.SX.sym("qd", n)}
    if m:
        symbols["lam"] = casadi.SX.sym("lam", m)
    state = State(symbols["q"], symbols["qd"], symbols.get("lam", casadi.SX(0, 1)))
    tau = casadi.SX.sym("tau", n) if law is None else _law_torque(law, symbols, plant.primary)
    if law is None:
        symbols["tau"] = tau
    dt = symbols["dt"] = casadi.SX.sym("dt")
    after = runge_kutta_step(plant, state, tau, dt)
    results = {"q_next": after.q, "qd_next": after.qd}
    if m:
        results["lam_next"] = after.lam
    if law is not None:
        results["tau"] = casadi.densify(tau)
    outputs = casadi.cse([*results.values()])
    return casadi.Function("step", [*symbols.values()], outputs, [*symbols], [*results])


def slope_function(plant: Plant) -> Function:
    """qdd and lam of (q, qd, lam, tau, dt): what the first stage of a step sees."""
    n, m = plant.joint_count, len(plant.levels)
    q = casadi.SX.sym("q", plant.position_count)
    qd, tau = (casadi.SX.sym(name, n) for name in ("qd", "tau"))
    lam, dt = casadi.SX.sym("lam", m), casadi.SX.sym("dt")
    (_, qdd), after = state_slope(plant, State(q, qd, lam), tau, dt)
    names = ["q", "qd", "lam", "tau", "dt"]
    results = [casadi.cse(qdd), casadi.cse(after)]
    return casadi.Function("slope", [q, qd, lam, tau, dt], results, names, ["qdd", "lam_next"])


def _law_torque(law: Function, symbols: dict[str, SX], primary: list[int]) -> SX:
    """The law's torques; its further inputs are added to the symbols."""
    for k, name in enumerate(law.name_in()):
        if name not in symbols:
            symbols[name] = casadi.SX.sym(name, *law.size_in(k))
    return law(*law_inputs(law, symbols, primary))


def law_inputs(law: Function, symbols: dict[str, SX], primary: list[int]) -> list[SX]:
    """What a law reads; positions of the primary joints, or of all joints where it is made of these."""
    whole = symbols["q"].shape
    return [
        symbols[name][primary] if name == "q" and law.size_in(k) != whole else symbols[name]
        for k, name in enumerate(law.name_in())
    ]


def runge_kutta_step(plant: Mechanism, state: State, tau: SX, dt: SX) -> State:
    """The state after a step of dt under a held torque."""
    k1, lam = state_slope(plant, state, tau, dt)
    k2, lam = state_slope(plant, state.moved(dt / 2, k1, lam), tau, dt)
    k3, lam = state_slope(plant, state.moved(dt / 2, k2, lam), tau, dt)
    k4, lam = state_slope(plant, state.moved(dt, k3, lam), tau, dt)
    mean = [(a + 2 * (b + c) + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
    return state.moved(dt, (mean[0], mean[1]), lam)


def state_slope(plant: Mechanism, state: State, tau: SX, dt: SX) -> tuple[tuple[SX, SX], SX]:
    """(dq/dt, dqd/dt) and the friction torques there."""
    if not plant.has_friction:
        qdd = plant.equation("forward_dynamics")(state.q, state.qd, tau)
        return (plant.rates(state.q, state.qd), qdd), state.lam
    here = plant_response(plant, state.q, state.qd, tau)
    target = here.b + (DECAY_RATE / dt) * (here.F @ state.qd)
    lam = state.lam
    for _ in range(SWEEPS_PER_STAGE):
        lam = sweep_gauss_seidel(here.A, target, plant.levels, lam)
    return (plant.rates(state.q, state.qd), here.free - here.W @ lam), lam
