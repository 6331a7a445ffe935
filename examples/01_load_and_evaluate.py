"""Load a robot, look at it, evaluate its equations of motion."""

import numpy as np

import mindyn

robot = mindyn.load_robot("panda")
print(robot)

q = np.array([0.0, -0.4, 0.0, -2.0, 0.0, 1.6, 0.8])
qd = np.full(7, 0.5)
qdd = np.zeros(7)

tau = mindyn.build_equation(robot, "inverse_dynamics")(q, qd, qdd)
print("torques [N m]:", np.array(tau).ravel().round(3))

M = np.array(mindyn.build_equation(robot, "inertia_matrix")(q))
print("smallest eigenvalue of M [kg m^2]:", np.linalg.eigvalsh(M)[0].round(5))

flange = np.array(mindyn.build_equation(robot, "forward_kinematics", link="flange")(q))
print("flange position [m]:", flange[:3, 3].round(4))

# The dynamics are linear in the link parameters: tau = Y phi.
Y = np.array(mindyn.build_equation(robot, "standard_regressor")(q, qd, qdd))
print("Y phi = tau:", np.allclose(Y @ robot.phi, np.array(tau).ravel()))

loaded = robot.with_payload(mass=3.0, com=(0, 0, 0.05), inertia=0.005 * np.eye(3), at="flange")
extra = np.array(mindyn.build_equation(loaded, "gravity")(q)) - np.array(mindyn.build_equation(robot, "gravity")(q))
print("a 3 kg load adds [N m]:", extra.ravel().round(3))
