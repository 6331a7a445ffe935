"""Values of the position servos of a Unitree Go2: mindyn, CMA-ES on rollouts, and mujoco.sysid.

    MINDYN_REAL_DATA=folder python -m benchmarks.identification.servo_methods [--legs FL FR RL RR] [--record]

Every method gets the first 65 % of a chirp (targets and positions at 200 Hz, gains unknown) and the masses of the
public file, and chooses kp, kd, Coulomb friction and armature of three joints. The error is that of the positions in
one rollout over the last 35 %, in MuJoCo, with each method's own model.

CMA-ES minimises the error of a rollout over all training rows, as in PACE; values are searched on a logarithmic scale,
the delay of the targets is searched too. It stops after the processor time of mindyn, and once more after a hundred
times as much. mujoco.sysid fits windows of 1 s from measured positions and velocities, and then a rollout over all
training rows from there; it gets the delay that mindyn finds. Both use an implicit step of 2.5 ms with
`noslip_iterations="5"` and the stiff friction that mindyn writes, without which friction creeps.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
from mujoco import sysid

import mindyn
from benchmarks.identification.go2_legs import FOLDER, LEGS, UNKNOWN, leg_logs
from benchmarks.identification.servo_arms import write_leg
from benchmarks.sections import Section, arguments, publish
from benchmarks.timing import this_machine
from mindyn.output.export.servo_replay import replay_in_mujoco

STEP_S, RATE_HZ = 0.0025, 200.0
NAMES = ("hip", "thigh", "calf")
LOWER = np.repeat([1.0, 0.01, 0.001, 1e-4], 3)
START = np.repeat([20.0, 0.5, 0.2, 0.01], 3)
UPPER = np.repeat([200.0, 20.0, 5.0, 0.3], 3)
"""kp, kd, Coulomb friction, armature of the three joints."""
MAX_DELAY_S = 0.03
WINDOW_S = 1.0
SOLVER = (0.9999, 0.9999, 0.001, 0.5, 2.0)


class Simulation:
    """Rollouts of one leg in MuJoCo, with the values of its servos as parameters."""

    def __init__(self, path: Path) -> None:
        self.spec = mujoco.MjSpec.from_file(str(path))
        self.spec.option.timestep, self.spec.option.noslip_iterations = STEP_S, 5
        self.spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        for name in NAMES:
            joint = self.spec.joint(name)
            joint.solimp_friction, joint.frictionloss = SOLVER, 0.1
            actuator = self.spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
            encoder = {"type": mujoco.mjtSensor.mjSENS_JOINTPOS, "objtype": mujoco.mjtObj.mjOBJ_JOINT}
            self.spec.add_sensor(name=f"{name}_position", objname=name, **encoder)
        self.model = self.spec.compile()
        self.data = mujoco.MjData(self.model)

    def put(self, values: np.ndarray) -> None:
        """Give the servos new values."""
        kp, kd, friction, armature = values.reshape(4, 3)
        self.model.actuator_gainprm[:, 0], self.model.actuator_biasprm[:, 1] = kp, -kp
        self.model.dof_damping[:], self.model.dof_frictionloss[:] = kd, friction
        self.model.dof_armature[:] = armature

    def roll_out(self, log: mindyn.Log, delay_s: float = 0.0) -> np.ndarray:
        """Return the positions (N, 3) from the first measured position."""
        target = delayed(log, delay_s)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = log.q[0]
        q, steps = np.empty_like(log.q), round(1 / RATE_HZ / STEP_S)
        for k, u in enumerate(target):
            q[k] = self.data.qpos
            self.data.ctrl[:] = u
            mujoco.mj_step(self.model, self.data, steps)
        return q if np.isfinite(q).all() else np.full_like(q, 1e3)

    def error(self, values: np.ndarray, log: mindyn.Log, delay_s: float) -> float:
        """Return the mean square position error of a rollout."""
        self.put(values)
        return float(np.mean((self.roll_out(log, delay_s) - log.q) ** 2))


def delayed(log: mindyn.Log, delay_s: float) -> np.ndarray:
    """Return the targets (N, 3) that take effect at the times of the log."""
    assert log.target is not None
    return np.column_stack([np.interp(log.time - delay_s, log.time, column) for column in log.target.T])


def minimise_by_cma(
    loss: Callable[[np.ndarray], float], dimension: int, limits_s: list[float], seed: int = 0
) -> list[np.ndarray]:
    """Return the best points of CMA-ES in the unit cube after each of the processor times (Hansen 2016, defaults)."""
    rng, start, found = np.random.default_rng(seed), time.process_time(), []
    size = 4 + int(3 * np.log(dimension))
    weights = np.log((size + 1) / 2) - np.log(np.arange(1, size // 2 + 1))
    weights /= weights.sum()
    parents, mass = len(weights), 1 / (weights**2).sum()
    cc = (4 + mass / dimension) / (dimension + 4 + 2 * mass / dimension)
    cs = (mass + 2) / (dimension + mass + 5)
    c1 = 2 / ((dimension + 1.3) ** 2 + mass)
    cmu = min(1 - c1, 2 * (mass - 2 + 1 / mass) / ((dimension + 2) ** 2 + mass))
    damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / (dimension + 1)) - 1) + cs
    length = np.sqrt(dimension) * (1 - 1 / (4 * dimension) + 1 / (21 * dimension**2))
    mean, sigma, covariance = np.full(dimension, 0.5), 0.2, np.eye(dimension)
    along, step, best, least, generation = np.zeros(dimension), np.zeros(dimension), mean, np.inf, 0
    for limit_s in limits_s:
        while time.process_time() - start < limit_s and sigma > 1e-6:
            generation += 1
            spread, axes = np.linalg.eigh(covariance)
            spread = np.sqrt(np.maximum(spread, 1e-20))
            draws = rng.standard_normal((size, dimension)) * spread @ axes.T
            points = mean + sigma * draws
            inside = np.clip(points, 0.0, 1.0)
            losses = np.array([loss(point) for point in inside])
            losses *= 1 + ((points - inside) ** 2).sum(axis=1)
            order = np.argsort(losses)
            if losses[order[0]] < least:
                least, best = losses[order[0]], inside[order[0]]
            chosen = draws[order[:parents]]
            moved = weights @ chosen
            mean = mean + sigma * moved
            step = (1 - cs) * step + np.sqrt(cs * (2 - cs) * mass) * (axes @ ((axes.T @ moved) / spread))
            slow = (
                np.linalg.norm(step) / np.sqrt(1 - (1 - cs) ** (2 * generation)) < (1.4 + 2 / (dimension + 1)) * length
            )
            along = (1 - cc) * along + slow * np.sqrt(cc * (2 - cc) * mass) * moved
            covariance = (
                (1 - c1 - cmu) * covariance
                + c1 * (np.outer(along, along) + (1 - slow) * cc * (2 - cc) * covariance)
                + cmu * (chosen.T * weights) @ chosen
            )
            sigma *= np.exp(min(1.0, cs / damping * (np.linalg.norm(step) / length - 1)))
        found.append(best)
    return found


def fit_by_cma(simulation: Simulation, log: mindyn.Log, limits_s: list[float]) -> list[tuple[np.ndarray, float]]:
    """Return values and delay after each processor time."""

    def unpack(point: np.ndarray) -> tuple[np.ndarray, float]:
        return LOWER * (UPPER / LOWER) ** point[:-1], MAX_DELAY_S * float(point[-1])

    points = minimise_by_cma(lambda point: simulation.error(unpack(point)[0], log, unpack(point)[1]), 13, limits_s)
    return [unpack(point) for point in points]


def fit_by_sysid(simulation: Simulation, log: mindyn.Log, delay_s: float) -> np.ndarray:
    """Return the values that mujoco.sysid finds, from windows first and then from one rollout."""
    values = START
    for window in (round(WINDOW_S * RATE_HZ), len(log) - 1):
        values = _fit_windows_by_sysid(simulation, log, delayed(log, delay_s), values, window)
    return values


def _fit_windows_by_sysid(
    simulation: Simulation, log: mindyn.Log, target: np.ndarray, start: np.ndarray, window: int
) -> np.ndarray:
    model, spec = simulation.model, simulation.spec
    simulation.put(start)
    parameters = sysid.ParameterDict()
    for k, low, value, high in zip(range(12), LOWER, start, UPPER, strict=True):
        kind, name = ("kp", "kd", "friction", "armature")[k // 3], NAMES[k % 3]
        bounds = np.log(value), np.log(low), np.log(high)
        parameters.add(sysid.Parameter(f"{name}_{kind}", *bounds, modifier=_writer(name, kind)))
    velocity = np.gradient(log.q, log.time, axis=0)
    states, controls, sensors = [], [], []
    steps = round(1 / RATE_HZ / STEP_S)
    fine = np.arange((window + 1) * steps) * STEP_S
    for begin in range(0, len(log) - window, window):
        first = np.zeros(3) if begin == 0 else velocity[begin]
        states.append(sysid.create_initial_state(model, log.q[begin], first, simulation.data.act))
        held = np.repeat(target[begin : begin + window + 1], steps, axis=0)
        measured = np.column_stack(
            [
                np.interp(fine[1:], np.arange(window + 1) / RATE_HZ, column)
                for column in log.q[begin : begin + window + 1].T
            ]
        )
        controls.append(sysid.TimeSeries(fine, held))
        sensors.append(sysid.TimeSeries.from_names(fine[1:], measured, model))
    names = [f"window{k}" for k in range(len(states))]
    sequences = sysid.ModelSequences("leg", spec, names, states, controls, sensors)
    residual = sysid.build_residual_fn(models_sequences=[sequences])
    result, _ = sysid.optimize(initial_params=parameters, residual_fn=residual, optimizer="mujoco", verbose=False)
    return np.exp([float(np.ravel(parameter.value)[0]) for parameter in result.parameters.values()])


def _writer(name: str, kind: str):
    """Return the function by which mujoco.sysid writes a value into the specification."""

    def write(spec, parameter) -> None:
        value, joint, actuator = float(np.exp(np.ravel(parameter.value)[0])), spec.joint(name), spec.actuator(name)
        if kind == "kp":
            gain, bias = np.zeros(10), np.zeros(10)
            gain[0], bias[1] = value, -value
            actuator.gainprm, actuator.biasprm = gain, bias
            return
        attribute = {"kd": "damping", "friction": "frictionloss", "armature": "armature"}[kind]
        stated = np.zeros_like(np.asarray(getattr(joint, attribute), dtype=float))
        stated.flat[0] = value
        setattr(joint, attribute, stated if stated.ndim else float(stated))

    return write


def compare(leg: str, folder: Path) -> list[tuple[str, float, np.ndarray]]:
    """Return for each method its processor time (s) and its position errors (rad) on the held-out rows."""
    robot = write_leg(folder, leg)
    training, held_out = leg_logs(leg, UNKNOWN)
    simulation = Simulation(folder / f"{leg}.xml")
    start = time.process_time()
    estimate = mindyn.identify_servos(robot, training)
    ours_s = time.process_time() - start
    replay = replay_in_mujoco(estimate, mindyn.write_mjcf(estimate, folder / f"{leg}-found.xml"), [held_out])
    rows = [("mindyn", ours_s, replay.mujoco.errors)]
    for limit_s, fitted in zip(
        (ours_s, 100 * ours_s), fit_by_cma(simulation, training, [ours_s, 100 * ours_s]), strict=True
    ):
        simulation.put(fitted[0])
        q = simulation.roll_out(held_out, fitted[1])
        rows.append(("CMA-ES", limit_s, np.sqrt(((q - held_out.q) ** 2).mean(axis=0))))
    start = time.process_time()
    values = fit_by_sysid(simulation, training, estimate.delay_s)
    theirs_s = time.process_time() - start
    simulation.put(values)
    q = simulation.roll_out(held_out, estimate.delay_s)
    return [*rows, ("mujoco.sysid", theirs_s, np.sqrt(((q - held_out.q) ** 2).mean(axis=0)))]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--legs", nargs="+", default=LEGS, choices=LEGS)
    given = parser.parse_args()
    if not FOLDER.is_dir():
        sys.exit("MINDYN_REAL_DATA names no folder with the real logs")
    rows: list[tuple[str, ...]] = [("leg", "method", "processor time, s", *(f"{name}, mrad" for name in NAMES))]
    with tempfile.TemporaryDirectory() as folder:
        for leg in given.legs:
            for name, seconds, errors in compare(leg, Path(folder)):
                rows.append((leg, name, f"{seconds:.1f}", *(f"{1e3 * error:.1f}" for error in errors)))
                print(" | ".join(rows[-1]), flush=True)
    publish(
        Section(
            "servo_methods",
            "Position servos of a Unitree Go2: three methods",
            "MINDYN_REAL_DATA=... python -m benchmarks.identification.servo_methods",
            this_machine(),
            [
                "kp, kd, friction and armature of the servos of each leg, from the first 65 % of a chirp with unknown "
                "gains. Rms position errors of one rollout over the last 35 %, in MuJoCo. CMA-ES has the processor "
                "time of mindyn, and a hundred times as much."
            ],
            rows,
        ),
        record=given.record,
    )


if __name__ == "__main__":
    main()
