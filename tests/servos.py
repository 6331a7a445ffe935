"""A quadruped leg under position servos, simulated by MuJoCo: targets and positions, no torque."""

from __future__ import annotations

import numpy as np

KP, KV = np.array([20.0, 24.0, 30.0]), np.array([0.8, 1.0, 1.2])
ARMATURE, DAMPING, FRICTION = np.array([0.01, 0.012, 0.03]), np.array([0.05, 0.04, 0.06]), np.array([0.16, 0.17, 0.5])
TIME_STEP = 0.0001
LEG = """<mujoco model="leg">
  <compiler angle="radian"/>
  <option timestep="0.0001" integrator="implicitfast" gravity="0 0 -9.81"/>
  <worldbody>
    <body name="hip_link"><inertial pos="0.01 0.02 0" mass="0.68" fullinertia="0.0005 0.0009 0.0006 0 0 0"/>
      <joint name="hip" axis="1 0 0" {hip}/>
      <body name="thigh_link" pos="0 0.0955 0"><inertial pos="0 -0.02 -0.03" mass="1.15" fullinertia="0.006 0.006 0.001
      0 0 0.0003"/>
        <joint name="thigh" axis="0 1 0" {thigh}/>
        <body name="calf_link" pos="0 0 -0.213"><inertial pos="0.01 0 -0.13" mass="0.25" fullinertia="0.003 0.003 0.0001
        0 0 0"/>
          <joint name="calf" axis="0 1 0" {calf}/>{load}
        </body></body></body>
  </worldbody>
</mujoco>"""
JOINTS = ("hip", "thigh", "calf")


def leg_xml(*, actuators: bool = False, load: float = 0.0) -> str:
    """Return the MJCF of the leg, with position actuators and a load (kg) at its foot if asked."""
    values = zip(JOINTS, ARMATURE, DAMPING, FRICTION, strict=True)
    foot = f'<body pos="0.02 0.01 -0.2"><inertial pos="0 0 0" mass="{load}" diaginertia="1e-4 1e-4 1e-4"/></body>'
    parts = {j: f'armature="{a}" damping="{d}" frictionloss="{f}" solreffriction="5e-4 1"' for j, a, d, f in values}
    text = LEG.format(**parts, load=foot if load else "")
    lines = [f'<position joint="{j}" kp="{p}"/>' for j, p in zip(JOINTS, KP, strict=True)]
    lines += [f'<velocity joint="{j}" kv="{v}"/>' for j, v in zip(JOINTS, KV, strict=True)]
    return text.replace("</mujoco>", f"<actuator>{''.join(lines)}</actuator></mujoco>") if actuators else text


def leg_targets(seconds: float, rate_hz: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return times (N,) and targets (N, 3): sums of sines between 0.1 and 3 Hz."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate_hz)) / rate_hz
    frequencies, phases = rng.uniform(0.1, 3.0, (6, 3)), rng.uniform(0, 2 * np.pi, (6, 3))
    waves = np.sin(2 * np.pi * frequencies * t[:, None, None] + phases) / np.sqrt(1 + frequencies)
    return t, np.array([0.1, 0.6, -1.2]) + 0.25 * waves.sum(axis=1)


def simulate_leg(target: np.ndarray, rate_hz: float, load: float = 0.0, speed: np.ndarray | float = 0.0) -> np.ndarray:
    """Return the positions (N, 3) of MuJoCo's leg at the rows of the targets, which are held between rows.

    speed  (N, 3) target velocities
    """
    import mujoco

    model = mujoco.MjModel.from_xml_string(leg_xml(actuators=True, load=load))
    data = mujoco.MjData(model)
    data.qpos[:] = target[0]
    steps, q = round(1 / (rate_hz * model.opt.timestep)), np.empty_like(target)
    for row, wanted in enumerate(np.hstack([target, speed * np.ones_like(target)])):
        q[row] = data.qpos
        data.ctrl[:] = wanted
        mujoco.mj_step(model, data, steps)
    return q
