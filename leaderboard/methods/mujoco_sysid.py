"""mujoco.sysid: fit a MuJoCo model to the torques by its parameters, modifiers and optimizer.

    mindyn compare --logs DIR --method leaderboard/methods/mujoco_sysid.py

The ten inertial parameters of every link (as pseudo inertia, so that the model stays physically consistent), and the
armature, damping, dry friction and torque offset of every joint. The residual is the torque of MuJoCo's inverse
dynamics, because torque is what the leaderboard scores: rollouts of positions, the usual residual of mujoco.sysid,
compile the model again for every window and had not converged on the UR10 after 100 s of processor time. A link without
inertial parameters, or with inconsistent ones, starts from a ball of 5 kg. The filter of the motion is selected by the
training error of a first fit.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.signal import butter, sosfiltfilt

import mindyn
from mindyn.foundation.algebra.inertia import mass_com_inertia, phi_from_pseudo_inertia
from mindyn.foundation.algebra.rotations import quaternion_from_rotation

name = "mujoco.sysid"
CUTOFFS_HZ = 10.0, 2.0, 5.0, 20.0, 50.0
ROWS, ITERATIONS, ITERATIONS_FROM_GUESS = 600, (8, 15), (40, 20)
START_KG, START_RADIUS_M = 5.0, 0.15
KINDS = "armature", "damping", "frictionloss"


class Predictor:
    is_consistent = True

    def __init__(self, mujoco, model, offset, cutoff_hz):
        self.mujoco, self.model, self.data = mujoco, model, mujoco.MjData(model)
        self.offset, self.cutoff_hz = offset, cutoff_hz

    def __call__(self, log):
        return self.torque(*motion(log, self.cutoff_hz))

    def torque(self, q, qd, qdd):
        data, tau = self.data, np.empty_like(q)
        for row in range(len(q)):
            data.qpos, data.qvel, data.qacc = q[row], qd[row], qdd[row]
            self.mujoco.mj_inverse(self.model, data)
            tau[row] = data.qfrc_inverse
        return tau + self.offset


def fit(robot, logs):
    import mujoco
    from mujoco import sysid

    is_known = all(is_consistent(link.phi) for link in robot.links)
    first_count, last_count = ITERATIONS if is_known else ITERATIONS_FROM_GUESS
    links = [link if is_consistent(link.phi) else replace(link, phi=guess_inertia()) for link in robot.links]
    robot = replace(robot, links=tuple(links))
    with tempfile.TemporaryDirectory() as folder:
        mindyn.write_mjcf(replace(robot, drives=(), extras=()), Path(folder) / "arm.xml", force=True)
        spec = mujoco.MjSpec.from_file(str(Path(folder) / "arm.xml"))
    spec.compiler.balanceinertia = True  # thin links break the triangle inequality by rounding
    for joint in robot.joint_names:
        spec.joint(joint).limited = mujoco.mjtLimited.mjLIMITED_FALSE
    tau = np.concatenate([log.tau for log in logs])
    take = slice(None, None, max(1, len(tau) // ROWS))
    size = tau.std(axis=0)  # joints count alike
    parameters, model = sysid.ParameterDict(), spec.compile()
    wide = {"mass_bound_mult": np.array([1e-3, 1e3]), "stretch_bound_mult": np.array([1e-2, 1e2])}
    wide |= {"ipos_bound_off": np.array([-2.0, 2.0]), "shear_bound_off": np.array([-2.0, 2.0])}
    for link in robot.link_names:
        pseudo = {"inertia_type": sysid.InertiaType.Pseudo, "modifier": link_writer(link)}
        parameters.add(sysid.body_inertia_param(spec, model, link, **pseudo, **wide))
    _, qd, qdd = gather(logs, CUTOFFS_HZ[0])
    units = {"armature": size / qdd.std(axis=0), "damping": size / qd.std(axis=0), "frictionloss": size}
    for kind in KINDS:
        for joint, unit in zip(robot.joint_names, units[kind], strict=True):
            write = lambda s, p, j=joint, k=kind, u=unit: put(s.joint(j), k, u * p.value[0])  # noqa: E731
            parameters.add(sysid.Parameter(f"{joint}_{kind}", 0.1, 0.0, 5.0, modifier=write))
    parameters.add(sysid.Parameter("offset", np.zeros(len(size)), np.full(len(size), -5.0), np.full(len(size), 5.0)))

    def predictor(values, cutoff_hz):
        fitted = sysid.apply_param_modifiers(values, spec)
        return Predictor(mujoco, fitted, size * values["offset"].value, cutoff_hz)

    def optimize(values, cutoff_hz, iterations):
        states = [part[take] for part in gather(logs, cutoff_hz)]

        def residual(x, current):
            """Return the residual (m, k) of k columns of parameters, which the optimizer asks for at once."""
            columns = []
            for column in x.reshape(len(x), -1).T:
                current.update_from_vector(column)
                error = predictor(current, cutoff_hz).torque(*states) - tau[take]
                columns.append((error / size).ravel())
            return [np.stack(columns, axis=1).reshape(-1, *x.shape[1:])], None, None

        return sysid.optimize(values, residual, verbose=False, max_iters=iterations)[0]

    def error(values, cutoff_hz):
        states = [part[take] for part in gather(logs, cutoff_hz)]
        return np.linalg.norm((predictor(values, cutoff_hz).torque(*states) - tau[take]) / size)

    first = optimize(parameters, CUTOFFS_HZ[0], first_count)
    best = min(CUTOFFS_HZ, key=lambda cutoff_hz: error(first, cutoff_hz))
    return predictor(optimize(first, best, last_count), best)


def link_writer(link):
    """Return a modifier that writes theta = (alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3) into a body.

    The pseudo-inertia is U U^T with U = exp(alpha) [[exp d1, s12, s13, t1], [0, exp d2, s23, t2], [0, 0, exp d3, t3],
    [0, 0, 0, 1]]. The modifier of mujoco.sysid itself compiles the model for each link.
    """

    def write(spec, parameter):
        alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3 = np.asarray(parameter.value, dtype=np.float64)
        U = np.array([[np.exp(d1), s12, s13, t1], [0, np.exp(d2), s23, t2], [0, 0, np.exp(d3), t3], [0, 0, 0, 1]])
        mass, com, J = mass_com_inertia(phi_from_pseudo_inertia(np.exp(2 * alpha) * U @ U.T))
        inertia, axes = np.linalg.eigh(J)
        axes[:, 0] *= np.sign(np.linalg.det(axes))
        body = spec.body(link)
        body.explicitinertial = True
        body.mass, body.ipos, body.inertia, body.iquat = mass, com, inertia, quaternion_from_rotation(axes)
        body.fullinertia = np.full(6, np.nan)

    return write


def is_consistent(phi):
    """Return whether the triangle inequality of the principal moments holds, which MuJoCo demands."""
    if phi is None or phi[0] <= 0:
        return False
    moments = np.linalg.eigvalsh(mass_com_inertia(phi)[2])
    return moments[0] > 0 and moments[0] + moments[1] > moments[2]


def guess_inertia():
    """Return the ten parameters of a ball at the origin of a link."""
    moment = 0.4 * START_KG * START_RADIUS_M**2
    return np.array([START_KG, 0, 0, 0, moment, 0, moment, 0, 0, moment])


def put(joint, key, value):
    stored = np.zeros_like(np.asarray(getattr(joint, key), dtype=float))
    stored.flat[0] = value
    setattr(joint, key, stored if stored.ndim else float(stored))


def gather(logs, cutoff_hz):
    return [np.concatenate(parts) for parts in zip(*(motion(log, cutoff_hz) for log in logs), strict=True)]


def motion(log, cutoff_hz):
    rate = (len(log) - 1) / (log.time[-1] - log.time[0])
    q = sosfiltfilt(butter(4, min(cutoff_hz, 0.4 * rate), fs=rate, output="sos"), log.q, axis=0)
    qd = np.gradient(q, log.time, axis=0)
    return q, qd, np.gradient(qd, log.time, axis=0)
