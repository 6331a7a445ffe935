"""mujoco.sysid: fit rollouts of a MuJoCo model to the positions, then predict by MuJoCo's inverse dynamics.

The ten inertial parameters of every link and the armature, damping and dry friction of every joint are fitted to
windows of 0.2 s that start at filtered states. A robot file without inertials has no model to start from.
"""

import tempfile
from pathlib import Path

import numpy as np
from scipy.signal import butter, sosfiltfilt

import mindyn

name = "mujoco.sysid"
CUTOFF_HZ, WINDOW_S, RATE_HZ, WINDOWS = 10.0, 0.2, 250.0, 40
DRIVE_START, DRIVE_LIMIT = 1.0, 200.0


def fit(robot, logs):
    import mujoco
    from mujoco import sysid

    from mindyn.export.mujoco_sysid import link_writer

    if not all(link.phi is not None for link in robot.links):
        raise ValueError("the robot file has no inertials, and mujoco.sysid needs a model to start from")
    with tempfile.TemporaryDirectory() as folder:
        mindyn.write_mjcf(robot, Path(folder) / "arm.xml")
        spec = mujoco.MjSpec.from_file(str(Path(folder) / "arm.xml"))
    spec.option.timestep = 1 / RATE_HZ
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    encoder = {"type": mujoco.mjtSensor.mjSENS_JOINTPOS, "objtype": mujoco.mjtObj.mjOBJ_JOINT}
    for joint in robot.joint_names:
        spec.joint(joint).limited = mujoco.mjtLimited.mjLIMITED_FALSE
        spec.joint(joint).actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
        spec.add_actuator(name=f"{joint}_motor", target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        spec.add_sensor(name=f"{joint}_position", objname=joint, **encoder)
    model = spec.compile()
    parameters = sysid.ParameterDict()
    wide = {"mass_bound_mult": np.array([0.1, 10.0]), "stretch_bound_mult": np.array([0.01, 100.0])}
    for link in robot.link_names:
        kind = sysid.InertiaType.Pseudo
        parameters.add(
            sysid.body_inertia_param(spec, model, link, inertia_type=kind, modifier=link_writer(link), **wide)
        )
    for joint in robot.joint_names:
        for key in ("armature", "damping", "frictionloss"):
            write = lambda s, p, n=joint, k=key: _write(s.joint(n), k, p.value[0])  # noqa: E731
            parameters.add(sysid.Parameter(f"{joint}_{key}", DRIVE_START, 0.0, DRIVE_LIMIT, modifier=write))
    residual = sysid.build_residual_fn(models_sequences=[_windows(sysid, mujoco, spec, model, logs)])
    values, _ = sysid.optimize(initial_params=parameters, residual_fn=residual, optimizer="mujoco", verbose=False)
    sysid.apply_param_modifiers_spec(values, spec)
    fitted = spec.compile()
    data = mujoco.MjData(fitted)

    def predict(log):
        q, qd, qdd = _motion(log.time, log.q)
        torque = np.empty_like(q)
        for row in range(len(q)):
            data.qpos[:], data.qvel[:], data.qacc[:] = q[row], qd[row], qdd[row]
            mujoco.mj_inverse(fitted, data)
            torque[row] = data.qfrc_inverse
        return torque

    return predict


def _write(joint, key, value):
    stored = np.zeros_like(np.asarray(getattr(joint, key), dtype=float))
    stored.flat[0] = value
    setattr(joint, key, stored if stored.ndim else float(stored))


def _motion(time, q):
    rate = (len(time) - 1) / (time[-1] - time[0])
    smooth = sosfiltfilt(butter(4, min(CUTOFF_HZ, 0.4 * rate), fs=rate, output="sos"), q, axis=0)
    qd = np.gradient(smooth, time, axis=0)
    return smooth, qd, np.gradient(qd, time, axis=0)


def _windows(sysid, mujoco, spec, model, logs):
    count, states, controls, sensors = int(WINDOW_S * RATE_HZ), [], [], []
    clock, data = np.arange(count + 1) / RATE_HZ, mujoco.MjData(model)
    for log in logs:
        q, qd, _ = _motion(log.time, log.q)
        at = np.arange(log.time[0], log.time[-1], 1 / RATE_HZ)
        q, qd, tau = (np.column_stack([np.interp(at, log.time, c) for c in v.T]) for v in (q, qd, log.tau))
        for start in np.linspace(0, len(at) - count - 2, max(1, WINDOWS // len(logs))).astype(int):
            data.qpos[:], data.qvel[:] = q[start], qd[start]
            states.append(sysid.create_initial_state(model, data.qpos, data.qvel, data.act))
            controls.append(sysid.TimeSeries(clock, tau[start : start + count + 1]))
            sensors.append(sysid.TimeSeries.from_names(clock[1:], q[start + 1 : start + count + 1], model))
    names = [f"window{k}" for k in range(len(states))]
    return sysid.ModelSequences("arm", spec, names, states, controls, sensors)
