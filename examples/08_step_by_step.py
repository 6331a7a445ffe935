"""Plan, simulate and evaluate Yoshida's step-by-step tests of his PUMA 560."""

import numpy as np

import mindyn
from mindyn.motions import simulate_tests

robot = mindyn.load_robot("puma560_yoshida")
plan = mindyn.plan_tests(robot)
print(plan.table())

exact = simulate_tests(robot, plan, rate_hz=200.0)
noise_free = mindyn.StepByStep(rule="gregory").fit(robot, plan, exact)
worst = np.abs(noise_free.beta - noise_free.base.values).max()
print(f"\nwithout noise, from velocities at 200 Hz: the largest error of a parameter is {worst:.1e}")

sensors = mindyn.Sensors(counts_per_revolution=1000, position_noise=0.003, torque_noise=0.001)
logs = simulate_tests(robot, plan, rate_hz=200.0, sensors=sensors, rng=1)
steps = mindyn.StepByStep().fit(robot, plan, logs)
together = mindyn.StepByStep(solution="together").fit(robot, plan, logs)

print("\nwith encoders of 1000 counts a turn, torques to 1 mN m at the motors and logs of 5 ms:")
print(f"{'parameter':<10}{'true':>12}{'by steps':>12}{'std. dev.':>12}{'together':>12}{'std. dev.':>12}")
columns = (steps.base.values, steps.beta, steps.deviations, together.beta, together.deviations)
for name, true, *result in zip(steps.names, *columns, strict=True):
    if name not in steps.values.dropped:
        value, deviation, other, spread = result
        print(f"{name:<10}{true:>12.4g}{value:>12.4g}{deviation:>12.2g}{other:>12.4g}{spread:>12.2g}")
print(f"\n{steps.status}")
