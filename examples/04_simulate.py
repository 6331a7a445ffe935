"""Simulate an arm with friction under computed torque and with encoders, and roll out a thousand arms at once."""

import numpy as np

import mindyn

robot = mindyn.load_robot("puma560")
reference = mindyn.SineMotion(
    centre=np.array([0.0, -1.2, 1.2, 0.0, 0.0, 0.0]),
    amplitude=np.full(6, 0.4),
    frequency_hz=np.array([0.2, 0.25, 0.3, 0.35, 0.4, 0.45]),
    phase=np.zeros(6),
)
controller = mindyn.ComputedTorque(robot, reference, 100.0, 20.0, with_drives=True)
start, speed, _ = reference(0.0)
sensors = mindyn.Sensors(rate_hz=200.0, counts_per_revolution=4000, torque_noise=0.002, torque_side="motor")
run = mindyn.simulate(robot, controller, seconds=5.0, q0=start, qd0=speed, with_drives=True, sensors=sensors)

error = run.q - np.array([reference(t)[0] for t in run.t])
print("largest tracking error [mrad]:", (1e3 * np.abs(error).max(axis=0)).round(2))
print("motor torque readings [N m], rms:", np.sqrt((run.measured.torque**2).mean(axis=0)).round(4))

rng = np.random.default_rng(0)
starts = rng.uniform(-1, 1, (1000, 6))
falls = mindyn.roll_out(robot, starts, np.zeros((1000, 6)), np.zeros(6), dt=1e-3, steps=500)
print("1000 arms let go for half a second:", falls.q.shape)
