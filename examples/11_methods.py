"""Identify a geared PUMA 560 with three methods from one noisy recording; compare torque errors and simulated motions.

Positions come from encoders of 1000 counts per turn at 200 Hz and are differentiated twice, as in Yoshida's chapter 3.
"""

from dataclasses import replace

import numpy as np

import mindyn
from mindyn.applications import compare_trajectories
from mindyn.identification import ClosedLoopInstruments

robot = mindyn.load_robot("puma560_yoshida")
rng, n = np.random.default_rng(0), robot.joint_count
sensors = mindyn.Sensors(200.0, counts_per_revolution=1000, torque_noise=0.01, noise_side="motor")


def simulate(sines, **options):
    """Simulate a motion under a controller whose model is 10 % too light; return it with the controller."""
    light = tuple(replace(link, phi=0.9 * link.phi) for link in robot.links)
    controller = mindyn.ComputedTorque(replace(robot, links=light), sines, 400.0, 40.0, with_drives=True)
    q0, qd0, _ = sines(0.0)
    run = {"seconds": 10.0, "q0": q0, "qd0": qd0, "rate_hz": 200.0, "control_rate_hz": 1000.0, "with_drives": True}
    return controller, mindyn.simulate(robot, controller, **run, method="fixed", longest_step_s=1e-3, **options)


def draw_sines():
    shape = (6, n)
    phases = rng.uniform(0, 2 * np.pi, shape)
    return mindyn.SineMotion(np.zeros(n), rng.uniform(0.1, 0.3, shape), rng.uniform(0.1, 1.0, shape), phases)


controller, motion = simulate(draw_sines(), sensors=sensors)
log = mindyn.log_from_arrays(robot.joint_names, motion.measured.t, motion.measured.position, motion.measured.torque)
raw = mindyn.Conditioning(motion_hz=None, edge_s=0.0, stamps="uniform")
recording = mindyn.condition(robot, log, raw).samples
clean = simulate(draw_sines())[1].samples()

methods = {
    "least squares": mindyn.LeastSquares(),
    "momentum difference": mindyn.EnergyDifference("momentum"),
    "closed-loop instruments": ClosedLoopInstruments(controller, control_rate_hz=1000.0, initial="reference"),
}
size = np.sqrt((clean.tau**2).mean(axis=0))
print("torque error on another, clean motion, % of each joint's torque; position error of the simulated motion, mrad")
rows = mindyn.build_rows(robot, recording)
for name, method in methods.items():
    estimate = method.fit(rows)
    wrong = np.sqrt(((estimate.predict(clean) - clean.tau) ** 2).mean(axis=0)) / size
    astray = 1e3 * compare_trajectories(estimate, recording).rms
    print(f"{name:24} {' '.join(f'{100 * w:6.2f}' for w in wrong)}  |  {' '.join(f'{a:6.2f}' for a in astray)}")
