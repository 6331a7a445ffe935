"""Guide an arm by hand with exported C: MuJoCo simulates the real arm, `hand_guiding.c` commands its torques.

Needs MuJoCo and a C compiler. The arm is identified from a simulated log, exported as C, and compiled with the program.
"""

import ctypes
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

import mindyn

try:
    import mujoco
except ImportError:
    mujoco = None
compiler = shutil.which("cc")
if mujoco is None or compiler is None:
    print("this example needs MuJoCo (pip install mujoco) and a C compiler (cc)")
    raise SystemExit

STEP_S = 0.001
robot = mindyn.load_robot("ur10")
drives = [
    mindyn.Drive(joint, viscous=8.0 / (k + 1), coulomb=10.0 / (k + 1), rotor_inertia=0.5 / (k + 1))
    for k, joint in enumerate(robot.joint_names)
]
robot = replace(robot, drives=tuple(drives))
names, n = robot.joint_names, robot.joint_count


def identify_arm():
    """Return the full model of a fit to a noisy log of the arm."""
    rng = np.random.default_rng(0)
    t = np.arange(0, 20, 0.01)[:, None, None]
    w, phase = rng.uniform(0.5, 4.0, (4, n)), rng.uniform(0, 6.28, (4, n))
    q, qd, qdd = (0.3 * (w**k * np.sin(t * w + phase + k * np.pi / 2)).sum(axis=1) for k in range(3))
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.1, q.shape)
    samples = mindyn.Samples(names, q, qd, qdd, tau, 100.0, np.zeros(len(q), int))
    fit = mindyn.PhysicallyConsistent().fit(mindyn.build_rows(robot, samples))
    return mindyn.build_full_model(fit, friction_at_zero="fitted")


def build(folder):
    """Export the identified arm as C, compile it with the program, and return the control law."""
    source = Path(__file__).with_name("hand_guiding.c")
    functions = ["inverse_dynamics", "inertia_matrix", "gravity"]
    mindyn.compile_model(identify_arm(), with_drives=True).write_c(folder / "arm.c", functions, prefix="arm_")
    library = folder / "hand_guiding.so"
    words = [compiler, "-O2", "-shared", "-fPIC", f"-I{folder}", source, folder / "arm.c", "-lm", "-o", library]
    subprocess.run(words, check=True)
    return ctypes.CDLL(str(library)).hand_guiding


def guide(q, qd):
    """Return the torque that `hand_guiding.c` commands."""
    tau, limit = np.zeros(n), np.full(n, 500.0)
    if law(*(array.ctypes.data_as(ctypes.c_void_p) for array in (q, qd, limit, tau))):
        raise RuntimeError("a position or velocity is not finite")
    return tau


def hold(q, qd):
    """Return the torque that holds the links, without compensation of friction."""
    return links.gravity(q) + 0 * qd


def rest(q, qd):
    """Return no torque."""
    return 0 * (q + qd)


def simulate(command, push, seconds=3.0):
    """Return positions and velocities (steps, n) of the arm in MuJoCo; `push` is the torque of the hand for 1 s."""
    data.qpos[:], data.qvel[:], rows = START, 0.0, []
    for k in range(round(seconds / STEP_S)):
        q, qd = data.qpos.copy(), data.qvel.copy()
        data.qfrc_applied[:] = command(q, qd) + (push if k * STEP_S < 1.0 else 0.0)
        mujoco.mj_step(model, data)
        rows.append((q, qd))
    return np.array(rows).transpose(1, 0, 2)


START = np.array([0.3, -0.9, 0.8, 0.2, 0.5, -0.1])
links = mindyn.compile_model(robot)
with tempfile.TemporaryDirectory() as temporary:
    law = build(Path(temporary))
    model = mujoco.MjModel.from_xml_path(str(mindyn.write_mjcf(robot, Path(temporary) / "plant.xml")))
    model.opt.timestep = STEP_S
    data = mujoco.MjData(model)
    hand = np.array([1.5 * robot.drives[0].coulomb, 0, 0, 0, 0, 0])
    (alone, _), (held, _) = simulate(rest, 0 * hand), simulate(guide, 0 * hand)
    (guided, speed), (stiff, _) = simulate(guide, hand), simulate(hold, hand)

fall, drift = (np.abs(q[-1] - START).max() for q in (alone, held))
way, uncompensated = guided[:, 0].max() - START[0], stiff[:, 0].max() - START[0]
print(f"without torque the arm falls by {fall:.2f} rad in 3 s, with gravity compensation it drifts by {drift:.4f} rad")
print(f"a hand moves joint 1 by {way:.3f} rad in 1 s, without compensation of friction by {uncompensated:.3f} rad")
print(f"speed of joint 1 when the hand lets go: {speed[1000, 0]:.3f} rad/s, 2 s later: {abs(speed[-1, 0]):.4f} rad/s")
assert drift < 0.01 < 0.3 < fall
assert way > 1.5 * uncompensated
assert np.abs(speed).max() < 3.0
assert abs(speed[-1, 0]) < 0.02
