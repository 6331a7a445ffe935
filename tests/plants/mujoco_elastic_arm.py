"""Record logs of an arm with elastic joints that MuJoCo simulates: a body for each motor, a spring to each link.

Hysteresis is a Dahl element parallel to the spring, backlash a body between motor and spring with a stop at both ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np

from plants.mujoco_arm import STIFF_FRICTION, Drives, _draw_motion, _load, _same_shape

STEP_S = 1e-4
"""Step of springs of this study; twice that is stable without backlash."""
LIGHT = 12.0
"""Inertia of the body between backlash and spring, relative to K times the squared step: as light as is stable."""
STOP = (-1e7, -6e3)
"""`solreflimit` of the stops of a backlash: they yield by less than 1e-6 rad."""


@dataclass(frozen=True)
class Elastic:
    """Elements between motors and links, (n,) each.

    stiffness, damping  N m/rad and N m s/rad
    hysteresis          N m; zero without
    presliding          deflection over which the hysteresis follows a reversal, rad
    backlash            full width, rad; zero without
    """

    stiffness: np.ndarray
    damping: np.ndarray
    hysteresis: np.ndarray
    presliding: np.ndarray
    backlash: np.ndarray


@dataclass(frozen=True)
class ElasticRecording:
    """Rows of a log: time (N,), positions of links and motors, motor torque, torque through the joints (N, n)."""

    time: np.ndarray
    q: np.ndarray
    motor_q: np.ndarray
    tau: np.ndarray
    through: np.ndarray


Motion = Callable[[float], tuple[np.ndarray, np.ndarray, np.ndarray]]


def plan_motion(path: str, rng: np.random.Generator, speed: float, seconds: float) -> tuple[Motion, np.ndarray]:
    """Return a sum of sines, and the amplitudes (n,) of the torque that it needs from rigid joints."""
    model = _load(path)
    data, q_at, torques = mujoco.MjData(model), _draw_motion(rng, model, speed, 5), []
    for t in np.arange(0, seconds, 0.02):
        data.qpos[:], data.qvel[:], data.qacc[:] = q_at(t)
        mujoco.mj_inverse(model, data)
        torques.append(data.qfrc_inverse.copy())
    return q_at, np.ptp(torques, axis=0) / 2


def record_elastic(
    path: str,
    drives: Drives,
    elastic: Elastic,
    q_at: Motion,
    *,
    seconds: float = 20.0,
    rate_hz: float = 250.0,
    bandwidth_hz: float = 3.0,
    step_s: float = STEP_S,
) -> ElasticRecording:
    """Simulate a motion that the motors follow under feedforward and feedback."""
    rigid = _load(path)
    plan, n = mujoco.MjData(rigid), rigid.nv
    model, motors, plays, springs = _build(path, drives, elastic, step_s)
    data = mujoco.MjData(model)
    inertia = _mean_inertia(rigid) + drives.armature
    gain, brake = inertia * (2 * np.pi * bandwidth_hz) ** 2, 2 * inertia * 2 * np.pi * bandwidth_hz
    data.qpos[motors], data.qvel[motors], _ = q_at(0.0)
    state, keep, rows = np.zeros(n), round(1 / (rate_hz * step_s)), []
    wear = elastic.hysteresis / np.maximum(elastic.presliding, 1e-300)
    for step in range(round(seconds / step_s)):
        q, qd, qdd = q_at(step * step_s)
        if step % round(1e-3 / step_s) == 0:
            plan.qpos[:], plan.qvel[:], plan.qacc[:] = q, qd, qdd
            mujoco.mj_inverse(rigid, plan)
            ahead = plan.qfrc_inverse + drives.armature * qdd
            ahead = ahead + drives.coulomb * np.tanh(qd / 0.02) + drives.viscous * qd
        torque = ahead + gain * (q - data.qpos[motors]) + brake * (qd - data.qvel[motors])
        rate = data.qvel[springs]
        loose = -state  # on the link, against its motion relative to the motor
        data.qfrc_applied[springs] = loose
        data.ctrl[:] = torque
        if step % keep == 0:
            link = data.qpos[motors] + data.qpos[springs]
            if plays:
                link[list(plays)] += data.qpos[list(plays.values())]
            through = -elastic.stiffness * data.qpos[springs] - elastic.damping * rate + loose
            rows.append((step * step_s, link, data.qpos[motors].copy(), torque.copy(), through))
        mujoco.mj_step(model, data)
        moved = data.qvel[springs]
        limit = np.maximum(elastic.hysteresis, 1e-300)
        state = np.clip(state + step_s * wear * moved * (1 - np.sign(moved) * state / limit), -limit, limit)
    return ElasticRecording(*(np.array(column) for column in zip(*rows, strict=True)))


def _build(path: str, drives: Drives, elastic: Elastic, step_s: float):
    """Compile the arm with motors, backlashes and springs; return the numbers of their joints too."""
    spec = mujoco.MjSpec.from_file(path)
    spec.option.timestep = step_s
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    n = len(elastic.stiffness)
    for k in range(n):
        body, name = spec.body(f"link{k + 1}"), f"joint{k + 1}"
        spring = spec.joint(name)
        spring.limited = False
        spring.stiffness = _same_shape(spring.stiffness, elastic.stiffness[k])
        spring.damping = _same_shape(spring.damping, elastic.damping[k])
        if elastic.backlash[k] > 0:
            play = body.add_joint(
                name=f"play{k + 1}", axis=[0, 0, 1], armature=LIGHT * 3 * elastic.stiffness[k] * step_s**2
            )
            play.limited, play.range = True, [-elastic.backlash[k] / 2, elastic.backlash[k] / 2]
            play.solref_limit, play.solimp_limit = STOP, STIFF_FRICTION
            play.damping = _same_shape(play.damping, 0.1 * elastic.damping[k])
        motor = body.add_joint(name=f"motor{k + 1}", axis=[0, 0, 1], armature=drives.armature[k])
        motor.frictionloss, motor.solimp_friction = drives.coulomb[k], STIFF_FRICTION
        motor.damping = _same_shape(motor.damping, drives.viscous[k])
        actuator = spec.add_actuator(name=f"drive{k}", target=motor.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_motor()
    model = spec.compile()
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    motors = [model.joint(f"motor{k + 1}").qposadr[0] for k in range(n)]
    springs = [model.joint(f"joint{k + 1}").qposadr[0] for k in range(n)]
    plays = {k: model.joint(f"play{k + 1}").qposadr[0] for k in range(n) if elastic.backlash[k] > 0}
    return model, motors, plays, springs


def _mean_inertia(model: mujoco.MjModel) -> np.ndarray:
    """Return the inertia (n,) about each joint at the middle position."""
    data, unit = mujoco.MjData(model), np.zeros(model.nv)
    mujoco.mj_forward(model, data)
    values = []
    for k in range(model.nv):
        unit[:], result = 0.0, np.zeros(model.nv)
        unit[k] = 1.0
        mujoco.mj_mulM(model, data, result, unit)
        values.append(result[k])
    return np.array(values)
