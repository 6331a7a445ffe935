"""Record logs of an arm that MuJoCo simulates, under computed torque.

MuJoCo has its own equations of motion, armature and stiction. The faults of a recording (noise, delay, a torque without
gravity) are added to the recorded arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

CONTROL_STEP_S = 0.001
STIFF_FRICTION = (0.9999, 0.9999, 0.001, 0.5, 2)
"""`solimpfriction` with which MuJoCo's stiction does not creep."""
FILE = """<mujoco model="arm">
  <compiler angle="radian"/>
  <worldbody>{bodies}</worldbody>
</mujoco>"""
BODY = """<body name="link{k}" pos="{pos}" euler="{euler}">
  <inertial pos="{centre}" mass="{mass}" fullinertia="{inertia}"/>
  <joint name="joint{k}" axis="0 0 1" range="-2.6 2.6" limited="true"/>
  {rest}
</body>"""


@dataclass(frozen=True)
class Drives:
    """Friction and rotor inertia of the joints.

    coulomb, viscous  N m and N m s/rad, (n,)
    armature          kg m^2, (n,)
    stribeck          additional friction at rest, relative to `coulomb`
    load              load-dependent friction: fraction of the torque of the links
    """

    coulomb: np.ndarray
    viscous: np.ndarray
    armature: np.ndarray
    stribeck: float = 0.0
    load: float = 0.0


@dataclass(frozen=True)
class Recording:
    """Rows of a log: time (N,) s, position, torque and weight (N, n), and the true torque without noise or delay."""

    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    weight: np.ndarray


def random_arm_file(rng: np.random.Generator, joints: int, folder: Path, *, mass_error: float = 0.0) -> tuple[str, str]:
    """Write two MJCF files of a random serial arm, the true one and one with wrong masses; return their paths."""
    lengths = rng.uniform(0.08, 0.45, joints) * np.linspace(1.0, 0.6, joints)
    masses = rng.uniform(2.0, 7.0, joints) * np.linspace(1.0, 0.25, joints) ** 2
    turns = rng.choice([-np.pi / 2, 0.0, np.pi / 2], joints)
    turns[0] = rng.choice([0.0, 0.0, np.pi / 2])
    if joints > 1 and turns[0] == 0:
        turns[1] = rng.choice([-1, 1]) * np.pi / 2  # otherwise gravity would act on no joint but the last ones
    centres = np.column_stack([rng.uniform(0.2, 0.7, joints) * lengths, *rng.normal(0, 0.02, (2, joints))])
    radii = rng.uniform(0.1, 0.25, joints) * np.maximum(lengths, 0.15)
    texts = []
    for factors in (np.ones(joints), np.exp(mass_error * rng.standard_normal(joints))):
        bodies = ""
        for k in reversed(range(joints)):
            across, along = radii[k] ** 2 / 2, lengths[k] ** 2 / 12 + radii[k] ** 2 / 4
            inertia = masses[k] * factors[k] * np.array([across, along, along, 0, 0, 0])
            bodies = BODY.format(
                k=k + 1,
                pos=_numbers([lengths[k - 1] if k else 0.0, 0.0, 0.1 if k == 0 else 0.0]),
                euler=_numbers([turns[k], 0.0, 0.0]),
                centre=_numbers(centres[k]),
                mass=masses[k] * factors[k],
                inertia=_numbers(inertia),
                rest=bodies,
            )
        texts.append(FILE.format(bodies=bodies))
    paths = [folder / name for name in ("true.xml", "file.xml")]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return str(paths[0]), str(paths[1])


def random_drives(rng: np.random.Generator, path: str, *, stribeck: float = 0.0, load: float = 0.0) -> Drives:
    """Return friction of 3 to 15 % of the weight that a joint can carry, and rotors like the links' inertia."""
    model = _load(path)
    data, weights, inertias = mujoco.MjData(model), [], []
    for _ in range(50):
        data.qpos[:] = rng.uniform(-1.5, 1.5, model.nv)
        mujoco.mj_forward(model, data)
        full = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, full) if _new_order() else mujoco.mj_fullM(model, full, data.qM)
        weights.append(np.abs(data.qfrc_bias))
        inertias.append(np.diag(full))
    weight, inertia = np.max(weights, axis=0), np.mean(inertias, axis=0)
    scale = np.maximum(weight, 0.05 * weight.max() + 0.3)
    return Drives(
        scale * rng.uniform(0.03, 0.15, model.nv),
        scale * rng.uniform(0.01, 0.1, model.nv),
        np.maximum(inertia, 0.02) * rng.uniform(0.1, 0.8, model.nv),
        stribeck,
        load,
    )


def record(
    path: str,
    drives: Drives,
    rng: np.random.Generator,
    *,
    seconds: float = 20.0,
    rate_hz: float = 100.0,
    speed: float = 1.0,
    sines: int = 5,
) -> Recording:
    """Simulate a sum of sines under computed torque, and return the rows at which a logger samples it."""
    model = _load(path, drives)
    data, n = mujoco.MjData(model), model.nv
    q_at = _draw_motion(rng, model, speed, sines)
    keep = round(1 / (rate_hz * CONTROL_STEP_S))
    data.qpos[:], data.qvel[:], _ = q_at(0.0)
    rows = []
    for step in range(round(seconds / CONTROL_STEP_S)):
        wanted, speeds, accelerations = q_at(step * CONTROL_STEP_S)
        accelerations = accelerations + 400 * (wanted - data.qpos) + 40 * (speeds - data.qvel)
        mujoco.mj_forward(model, data)
        links = np.zeros(n)
        mujoco.mj_mulM(model, data, links, accelerations)
        torque = links + data.qfrc_bias + drives.coulomb * np.tanh(speeds / 0.02) + drives.viscous * speeds
        if drives.stribeck or drives.load:
            more = drives.stribeck * drives.coulomb * np.exp(-((data.qvel / 0.1) ** 2))
            more = more + drives.load * np.abs(links + data.qfrc_bias)
            data.qfrc_applied[:] = -more * np.tanh(data.qvel / 0.02)
        data.ctrl[:] = torque
        if step % keep == 0:
            state = data.qpos.copy(), data.qvel.copy()
        mujoco.mj_step(model, data)
        if step % keep == 0:
            rows.append((step * CONTROL_STEP_S, *state, data.qacc.copy(), torque))
    time, q, qd, qdd, tau = (np.array(column) for column in zip(*rows, strict=True))
    return Recording(time, q, qd, qdd, tau, weights_at(path, q))


def weights_at(path: str, q: np.ndarray) -> np.ndarray:
    """Return the torque (N, n) that holds the arm at rest, by MuJoCo."""
    model = _load(path)
    data, weights = mujoco.MjData(model), np.empty_like(q)
    for row, position in enumerate(q):
        data.qpos[:] = position
        mujoco.mj_forward(model, data)
        weights[row] = data.qfrc_bias
    return weights


def _load(path: str, drives: Drives | None = None) -> mujoco.MjModel:
    """Compile the arm without contacts or joint limits; with drives if they are given."""
    spec = mujoco.MjSpec.from_file(path)
    spec.option.timestep = CONTROL_STEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for k, joint in enumerate(spec.joints):
        joint.limited = False
        if drives is not None:
            joint.armature, joint.frictionloss = drives.armature[k], drives.coulomb[k]
            joint.damping = _same_shape(joint.damping, drives.viscous[k])
            joint.solimp_friction = STIFF_FRICTION
            actuator = spec.add_actuator(name=f"drive{k}", target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            actuator.set_to_motor()
    model = spec.compile()
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    return model


def _same_shape(old, value: float):
    """Return a value as MuJoCo's version stores it: a number, or the coefficients of a polynomial."""
    return value if np.ndim(old) == 0 else np.array([value, *np.zeros(len(old) - 1)])


def _new_order() -> bool:
    return tuple(int(part) for part in mujoco.__version__.split(".")[:2]) >= (3, 4)


def _draw_motion(rng: np.random.Generator, model: mujoco.MjModel, speed: float, sines: int):
    """Return a function from time to position, velocity and acceleration: a sum of sines for each joint."""
    n = model.nv
    frequency = rng.uniform(0.05, 0.45, (sines, n))
    phase = rng.uniform(0, 2 * np.pi, (sines, n))
    amplitude = rng.uniform(0.3, 1.0, (sines, n)) / (1 + 6 * frequency) * (5 / sines) ** 0.5
    centre = rng.uniform(-0.5, 0.5, n)
    omega = 2 * np.pi * speed * frequency

    def at(t: float):
        angle = omega * t + phase
        return (
            centre + (amplitude * np.sin(angle)).sum(axis=0),
            (amplitude * omega * np.cos(angle)).sum(axis=0),
            -(amplitude * omega**2 * np.sin(angle)).sum(axis=0),
        )

    return at


def _numbers(values) -> str:
    return " ".join(f"{value:.6g}" for value in values)
