"""Build a full physical model from a short, noisy run: check, consistent fit, intervals, and a file for simulators."""

from dataclasses import replace

import numpy as np

import mindyn
from mindyn.identification import add_physical_intervals
from mindyn.regression import with_estimated_drives

cad = with_estimated_drives(mindyn.load_robot("ur10"))
drives = tuple(replace(drive, rotor_inertia=0.3, viscous=8.0, coulomb=5.0) for drive in cad.drives)
arm = replace(cad, drives=drives).with_payload(2.0, np.array([0.0, 0.0, 0.06]), 0.004 * np.eye(3))

rng = np.random.default_rng(0)
q, qd, qdd = rng.uniform(-1, 1, (3, 150, 6))
tau = mindyn.compile_model(arm, with_drives=True).inverse_dynamics(q, qd, qdd) + 1.0 * rng.standard_normal(q.shape)
run = mindyn.Samples(arm.joint_names, q, qd, qdd, tau, 100.0, np.zeros(len(q), dtype=np.int64))

rows = mindyn.build_rows(cad, run)
plain = mindyn.LeastSquares().fit(rows)
print("least squares:", mindyn.check_feasible(plain).consistent.sentence)

estimate = mindyn.PhysicallyConsistent(prior=cad).fit(rows)  # the CAD model has no payload
print("\nconsistent fit:", estimate.status)
print(mindyn.check_feasible(estimate))

low, high = add_physical_intervals(estimate).intervals
print("\nparameter   true      estimate  95 % interval under constraints")
truth = dict(zip(estimate.base.names, mindyn.base_parameters(arm, with_drives=True).values, strict=True))
for name in ("mcy3", "Izz2R", "fv2", "fc2"):
    k = estimate.names.index(name)
    print(f"{name:8} {truth[name]:9.4f} {estimate.value(name):9.4f}   {low[k]:.3f} to {high[k]:.3f}")

model = mindyn.build_full_model(estimate)
print("\nlink          CAD kg  fitted kg")
for link, drawn in zip(model.links, cad.links, strict=True):
    print(f"{link.name:14} {drawn.phi[0]:6.3f}  {link.phi[0]:6.3f}")
mindyn.write_mjcf(estimate, "ur10_identified.xml")
print("wrote ur10_identified.xml, with armature, damping and dry friction")
