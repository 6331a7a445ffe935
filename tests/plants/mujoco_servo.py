"""Record logs of a small arm that MuJoCo simulates under position servos: targets and positions, no torque.

The first joint turns about the vertical, so that gravity does not load it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from mindyn.logs import log_from_targets
from mindyn.logs.log import Log

STEP_S = 0.0005
JOINTS = ("pan", "lift", "elbow")
ARM = """<mujoco model="servo_arm">
  <compiler angle="radian"/>
  <worldbody>
    <body name="turret" pos="0 0 0.1"><inertial pos="0 0 0.02" mass="0.25" diaginertia="1e-4 1e-4 1e-4"/>
      <joint name="pan" axis="0 0 1"/>
      <body name="upper" pos="0 0 0.05"><inertial pos="0.06 0 0" mass="0.3" diaginertia="1e-4 3e-4 3e-4"/>
        <joint name="lift" axis="0 1 0"/>
        <body name="fore" pos="0.12 0 0"><inertial pos="0.07 0 0" mass="0.25" diaginertia="1e-4 3e-4 3e-4"/>
          <joint name="elbow" axis="0 1 0"/><site name="tip" pos="0.14 0 0"/>
        </body></body></body>
  </worldbody>
</mujoco>"""


@dataclass(frozen=True)
class ServoPlant:
    """True values (3,) of the joints, and faults of the plant.

    delay_s  from a target to its effect
    limit    largest torque of a servo, N m
    floor_m  height of a table that the tip touches; None for none
    stribeck friction at rest relative to fc, less one; it falls over 0.05 rad/s
    loaded   friction per N m of the load by gravity and motion
    backlash full play between gear and link, rad; the servo measures the link
    """

    kp: np.ndarray
    kd: np.ndarray
    fc: np.ndarray
    ia: np.ndarray
    delay_s: float = 0.0
    limit: float = np.inf
    floor_m: float | None = None
    stribeck: float = 0.0
    loaded: float = 0.0
    backlash: float = 0.0


def random_plant(rng: np.random.Generator, **faults) -> ServoPlant:
    """Return a plant with values like those of hobby servos."""
    kp = rng.uniform(8.0, 20.0, 3)
    ratios = rng.uniform([[0.03], [0.01], [0.0006]], [[0.08], [0.04], [0.002]], (3, 3))
    return ServoPlant(kp, *(kp * ratios), **faults)


def write_arm(folder: Path) -> Path:
    """Write the robot file, which has masses and no drives."""
    path = folder / "servo_arm.xml"
    path.write_text(ARM)
    return path


def draw_targets(rng: np.random.Generator, seconds: float, rate_hz: float) -> np.ndarray:
    """Return targets (N, 3): sines, then steps that rest."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    frequency, phase = rng.uniform(0.1, 0.9, (4, 3)), rng.uniform(0, 6.28, (4, 3))
    waves = (np.sin(2 * np.pi * frequency * t[:, None, None] + phase) * 0.25 / (0.3 + frequency)).sum(axis=1)
    steps = rng.uniform(-0.7, 0.7, (1 + len(t) // round(2 * rate_hz), 3)).repeat(round(2 * rate_hz), axis=0)[: len(t)]
    blend = np.clip((t - 0.6 * seconds) / 2, 0, 1)[:, None]
    smooth = np.array([np.convolve(np.pad(s, (25, 24), "edge"), np.ones(50) / 50, "valid") for s in steps.T]).T
    return (1 - blend) * waves + blend * smooth


def simulate_plant(plant: ServoPlant, target: np.ndarray, rate_hz: float) -> np.ndarray:
    """Return the positions (N, 3) at the rows of the targets, which are held between rows."""
    spec = mujoco.MjSpec.from_string(ARM)
    spec.option.timestep, spec.option.integrator = STEP_S, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for k, joint in enumerate(list(spec.joints)):
        joint.armature, joint.frictionloss = plant.ia[k], plant.fc[k]
        joint.solimp_friction, joint.solref_friction = (0.9999, 0.9999, 0.001, 0.5, 2), (0.001, 1)
        actuator = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(kp=plant.kp[k], kv=plant.kd[k])
        if np.isfinite(plant.limit):
            actuator.forcelimited, actuator.forcerange = True, (-plant.limit, plant.limit)
        if plant.backlash:
            play = joint.parent.add_joint(name=f"play_{joint.name}", axis=joint.axis)
            play.limited, play.range = True, (-plant.backlash / 2, plant.backlash / 2)
            play.solref_limit, play.solimp_limit = (0.002, 1), (0.99, 0.9999, 0.0001, 0.5, 2)
    if plant.floor_m is not None:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=(2, 2, 0.1), pos=(0, 0, plant.floor_m))
        ball = spec.body("fore").add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=(0.005, 0, 0), pos=(0.14, 0, 0))
        ball.mass = 0
    model = spec.compile()
    data, q = mujoco.MjData(model), np.empty_like(target)
    gears = [model.joint(name).qposadr[0] for name in JOINTS]
    plays = [model.joint(f"play_{name}").qposadr[0] for name in JOINTS] if plant.backlash else []
    data.qpos[gears] = target[0]
    varies = bool(plant.stribeck or plant.loaded or plant.backlash)

    def advance(wanted: np.ndarray, count: int) -> None:
        data.ctrl[:] = wanted
        for _ in range(count if varies else 0):
            rest = plant.stribeck * np.exp(-((data.qvel[gears] / 0.05) ** 2))
            model.dof_frictionloss[gears] = plant.fc * (1 + rest) + plant.loaded * np.abs(data.qfrc_bias[gears])
            if plays:
                data.ctrl[:] = wanted - data.qpos[plays]
            mujoco.mj_step(model, data)
        if not varies:
            mujoco.mj_step(model, data, count)

    steps, late, before = round(1 / (rate_hz * STEP_S)), round(plant.delay_s / STEP_S), target[0]
    for row, wanted in enumerate(target):
        q[row] = data.qpos[gears] + (data.qpos[plays] if plays else 0.0)
        advance(before, late)
        advance(wanted, steps - late)
        before = wanted
    return q


def record_servos(
    plant: ServoPlant, seed: int, *, seconds: float = 30.0, rate_hz: float = 50.0, encoder_step: float = 0.0015
) -> Log:
    """Return a log with rounded positions and unknown gains."""
    rng = np.random.default_rng([seed, 7])
    target = draw_targets(rng, seconds, rate_hz)
    q = np.round(simulate_plant(plant, target, rate_hz) / encoder_step) * encoder_step
    return log_from_targets(JOINTS, np.arange(len(q)) / rate_hz, q, target, "unknown", name=f"log{seed}")


def record_targets(plant: ServoPlant, target: np.ndarray, rate_hz: float) -> Log:
    """Return a log of given targets, with rounded positions and unknown gains."""
    q = np.round(simulate_plant(plant, target, rate_hz) / 0.0015) * 0.0015
    return log_from_targets(JOINTS, np.arange(len(q)) / rate_hz, q, target, "unknown")


def record_slow(plant: ServoPlant, slowdown: int, seconds: float = 24.0, rate_hz: float = 50.0) -> Log:
    """Return a log of sines, `slowdown` times slower than those of `draw_targets`."""
    rng = np.random.default_rng(5)
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    frequency, phase = rng.uniform(0.4, 0.9, (3, 3)) / slowdown, rng.uniform(0, 6.28, (3, 3))
    target = (0.3 * np.sin(2 * np.pi * frequency * t[:, None, None] + phase)).sum(axis=1)
    q = np.round(simulate_plant(plant, target, rate_hz) / 0.0015) * 0.0015
    return log_from_targets(JOINTS, t, q, target, "unknown", name="slow")
