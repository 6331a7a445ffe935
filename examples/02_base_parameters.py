"""Print the base parameters of a robot as formulas, and compare them with sets of the literature."""

import numpy as np

import mindyn

robot = mindyn.load_robot("puma560")
base = mindyn.base_parameters(robot)
print(f"{base.count} of {len(base.labels)} link parameters' worth of combinations:")
for name, formula in list(zip(base.names, base.expressions, strict=True))[:8]:
    print(f"  {name} = {formula}")

alone = [label for label, role in base.roles().items() if role == "alone"]
print("by themselves:", ", ".join(alone))

# A nonsingular matrix converts any two sets of a robot.
lin = mindyn.base_parameters(robot, "lin")
T = base.transform_to(lin)
print("Lin's values from ours:", np.allclose(T @ base.values, lin.values))

# The torques are linear in them: tau = Y beta.
model = mindyn.compile_model(robot)
q, qd, qdd = np.random.default_rng(0).uniform(-1, 1, (3, 1000, 6))
Y = model.regressor(q, qd, qdd)
print("Y beta = tau:", np.allclose(Y @ base.values, model.inverse_dynamics(q, qd, qdd)))

# Effect of a 1 kg tool at the flange.
loaded = robot.with_payload(1.0, (0, 0, 0.05), 1e-3 * np.eye(3), at="flange")
change = mindyn.base_parameters(loaded).values - base.values
print("a tool changes:", ", ".join(name for name, c in zip(base.names, change, strict=True) if abs(c) > 1e-9))

# A robot with a closed loop, in its primary joints.
palletiser = mindyn.load_robot("palletiser")
print("palletiser:", mindyn.base_parameters(palletiser).count, "base parameters")
