"""Play a motion file in MuJoCo with gravity and contacts: computed torque follows it, and contacts are listed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np
from oracles.collision_scene import mesh_path
from oracles.motion_reference import Motion

STIFFNESS, DAMPING = 900.0, 60.0
"""1/s^2 and 1/s of the tracking error."""


@dataclass(frozen=True)
class Playback:
    """Pairs of bodies in contact, each with the deepest penetration in m, and the largest tracking error."""

    contacts: dict[str, float]
    tracking_error: float


def model_with_floor(path: Path) -> mujoco.MjModel:
    """Compile a robot file with a floor at z = 0; a moving body without geoms becomes the box of its inertia."""
    spec = (
        mujoco.MjSpec.from_string(_readable_urdf(path))
        if path.suffix == ".urdf"
        else mujoco.MjSpec.from_file(str(path))
    )
    for body in spec.bodies[1:]:
        if not body.geoms:
            _add_inertia_box(body)
    fixed = ["world"]  # MuJoCo excludes contacts of parent and child, except for children of what is fixed
    for body in spec.bodies[1:]:
        if body.parent.name in fixed:
            for name in fixed if body.joints else ():
                spec.add_exclude(bodyname1=name, bodyname2=body.name)
            if not body.joints:
                fixed.append(body.name)
    spec.worldbody.add_body(name="floor").add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 0.1])
    return spec.compile()


def _readable_urdf(path: Path) -> str:
    """Return the URDF with absolute mesh paths and without visual shapes, whose formats MuJoCo cannot read."""
    root = ElementTree.parse(path).getroot()
    for old in root.findall("mujoco"):
        root.remove(old)
    options = {"strippath": "false", "discardvisual": "true", "fusestatic": "false", "balanceinertia": "true"}
    ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler", options)
    for link in root.findall("link"):
        for visual in link.findall("visual"):
            link.remove(visual)
    for mesh in root.iter("mesh"):
        mesh.set("filename", str(mesh_path(mesh.get("filename", ""), path)))
    return ElementTree.tostring(root, encoding="unicode")


def _add_inertia_box(body: mujoco.MjsBody) -> None:
    """Add the uniform box with the body's mass and inertia."""
    if not body.mass:
        return
    principal, turn = body.inertia, body.iquat
    if np.isfinite(body.fullinertia[0]):
        xx, yy, zz, xy, xz, yz = body.fullinertia
        principal, axes = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        turn = np.empty(4)
        mujoco.mju_mat2Quat(turn, axes.ravel())
    edges = np.sqrt(6 * np.maximum(np.sum(principal) - 2 * np.asarray(principal), 1e-9) / body.mass)
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=edges / 2, pos=body.ipos, quat=turn, mass=0)


def play(model: mujoco.MjModel, motion: Motion) -> Playback:
    """Follow the motion with computed torque in steps of at most 2 ms; joints that it does not name are held."""
    steps = max(1, int(np.ceil(np.diff(motion.t).max() / 0.002)))
    model.opt.timestep = float(np.diff(motion.t).mean()) / steps
    fine = motion.refine(1 / model.opt.timestep)
    dofs = [int(model.joint(name).dofadr[0]) for name in motion.q]
    at = [int(model.joint(name).qposadr[0]) for name in motion.q]
    rows = np.arange(len(next(iter(fine.values())))) / steps
    t = np.interp(rows, np.arange(len(motion.t)), motion.t)
    q = np.array([fine[name] for name in motion.q])
    qd = np.array([np.interp(t, motion.t, motion.qd[name]) for name in motion.q])
    qdd = np.array([np.interp(t, motion.t, motion.qdd[name]) for name in motion.q])
    data = mujoco.MjData(model)
    data.qpos[at], data.qvel[dofs] = q[:, 0], qd[:, 0]
    held = data.qpos.copy()
    rigid = [0] * model.nbody  # the body that carries each one while only the joints of the motion move
    for body in range(1, model.nbody):
        joints = range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body])
        moves = any(model.joint(joint).name in motion.q for joint in joints)
        rigid[body] = body if moves else rigid[model.body_parentid[body]]
    contacts: dict[str, float] = {}
    worst = 0.0
    for k in range(len(t)):
        target, speed, acceleration = held.copy(), np.zeros(model.nv), np.zeros(model.nv)
        target[at], speed[dofs], acceleration[dofs] = q[:, k], qd[:, k], qdd[:, k]
        error = target - data.qpos
        mujoco.mj_forward(model, data)
        for contact in data.contact[: data.ncon]:
            first, second = (int(model.geom_bodyid[geom]) for geom in contact.geom)
            if rigid[first] == rigid[second]:
                continue  # fingers that are held closed
            names = f"{model.body(first).name} - {model.body(second).name}"
            contacts[names] = min(contacts.get(names, 0.0), float(contact.dist))
        worst = max(worst, float(np.abs(error[at]).max()))
        data.qacc[:] = acceleration + STIFFNESS * error + DAMPING * (speed - data.qvel)
        mujoco.mj_inverse(model, data)
        data.qfrc_applied[:] = data.qfrc_inverse
        mujoco.mj_step(model, data)
    return Playback(contacts, worst)
