"""Reading MJCF through MuJoCo (extra `mjcf`): MuJoCo compiles the file, we read the compiled tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mindyn.algebra.inertia import phi_about_origin
from mindyn.algebra.poses import IDENTITY, Pose
from mindyn.algebra.rotations import about_axis, from_quaternion
from mindyn.errors import MissingExtraError, RobotFileError
from mindyn.notation import PARAMETERS_PER_LINK
from mindyn.notes import Note, grouped
from mindyn.robots.description import AnyJoint, Description, FixedJoint
from mindyn.robots.parts import Drive, Frame, Joint, Limits, Link
from mindyn.robots.snapping import GROUPED, Snapper


def import_mujoco() -> Any:
    """The mujoco package, or an error that says how to install it."""
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtraError("MJCF files need MuJoCo", hint="pip install 'mindyn[mjcf]'") from error
    return mujoco


def read_mjcf(path: Path, snap: Snapper) -> Description:
    """What an MJCF file describes; the world body is its root."""
    mujoco = import_mujoco()
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise RobotFileError(f"MuJoCo cannot compile {path.name}: {error}") from error
    return _MjcfReader(mujoco, model, snap).description(path.stem)


@dataclass(slots=True)
class _MjcfReader:
    mujoco: Any
    model: Any
    snap: Snapper
    links: list[Link] = field(default_factory=list)
    joints: list[AnyJoint] = field(default_factory=list)
    drives: list[Drive] = field(default_factory=list)

    def description(self, fallback_name: str) -> Description:
        for body in range(self.model.nbody):
            self.body(body)
        ignored = {
            "equality constraints": self.model.neq,
            "tendons": self.model.ntendon,
            "actuators": self.model.nu,
            "joint springs": np.count_nonzero(self.model.jnt_stiffness),
            "gravity compensations": np.count_nonzero(self.model.body_gravcomp),
            "fluid forces": int(self.model.opt.density > 0 or self.model.opt.viscosity > 0),
        }
        notes = [
            Note("left out", f"{count} {what} of the MJCF were left out") for what, count in ignored.items() if count
        ]
        file_name = self.model.names[: self.model.names.index(b"\0")].decode()
        return Description(
            file_name or fallback_name,
            tuple(self.links),
            tuple(self.joints),
            self.model.opt.gravity,
            frames=tuple(self.site(site) for site in range(self.model.nsite)),
            drives=tuple(self.drives),
            notes=grouped([*notes, *self.snap.notes], GROUPED),
        )

    def name(self, kind: str, index: int) -> str:
        named = self.mujoco.mj_id2name(self.model, getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), index)
        return str(named) if named else f"{kind}{index}"

    def pose(self, quaternion: Any, translation: Any, what: str) -> Pose:
        return Pose(self.snap.rotation(from_quaternion(*quaternion), what), translation)

    def site(self, site: int) -> Frame:
        name = self.name("site", site)
        pose = self.pose(self.model.site_quat[site], self.model.site_pos[site], f"site {name!r}")
        return Frame(name, self.name("body", self.model.site_bodyid[site]), pose)

    def body(self, body: int) -> None:
        """The link of a body, and its joints; between several joints of one body stand massless links."""
        name = self.name("body", body)
        self.links.append(Link(name, self.phi(body)))
        if body == 0:
            return
        parent = self.name("body", self.model.body_parentid[body])
        pose = self.pose(self.model.body_quat[body], self.model.body_pos[body], f"body {name!r}")
        count, first = self.model.body_jntnum[body], self.model.body_jntadr[body]
        if count == 0:
            self.joints.append(FixedJoint(f"{name} fixed", parent, name, pose))
        for k in range(first, first + count):
            child = name if k == first + count - 1 else f"{name}/{self.name('joint', k)}"
            if child != name:
                self.links.append(Link(child, np.zeros(PARAMETERS_PER_LINK)))
            self.joints.append(self.joint(k, parent, child, pose))
            parent, pose = child, IDENTITY

    def phi(self, body: int) -> Any:
        X = Pose(from_quaternion(*self.model.body_iquat[body]), self.model.body_ipos[body])
        J = X.rotation @ np.diag(self.model.body_inertia[body]) @ X.rotation.T
        return phi_about_origin(self.model.body_mass[body], X.translation, J)

    def joint(self, k: int, parent: str, child: str, pose: Pose) -> Joint:
        name, model = self.name("joint", k), self.model
        kinds = {int(self.mujoco.mjtJoint.mjJNT_HINGE): "revolute", int(self.mujoco.mjtJoint.mjJNT_SLIDE): "prismatic"}
        kind = kinds.get(int(model.jnt_type[k]))
        if kind is None:
            raise RobotFileError(f"joint {name!r} is a free or ball joint; mindyn knows hinge, slide and fixed bodies")
        axis = self.snap.axis(model.jnt_axis[k], f"axis of joint {name!r}")
        start = model.qpos0[model.jnt_qposadr[k]]
        anchor = Pose(None, model.jnt_pos[k])
        zero = Pose(about_axis(axis, -start)) if kind == "revolute" else Pose(None, -start * axis)
        dof = model.jnt_dofadr[k]
        armature, viscous, coulomb = model.dof_armature[dof], self.damping(dof), model.dof_frictionloss[dof]
        if armature or viscous or coulomb:
            self.drives.append(Drive(name, 1.0, {}, float(armature), float(viscous), float(coulomb), 0.0, "joint"))
        lower, upper = map(float, model.jnt_range[k]) if model.jnt_limited[k] else (None, None)
        effort = float(model.jnt_actfrcrange[k][1]) if model.jnt_actfrclimited[k] else None
        limits = Limits(lower, upper, effort=effort)
        revolute = kind == "revolute"
        origin = pose @ anchor @ zero
        return Joint(
            name, "revolute" if revolute else "prismatic", parent, child, origin, axis, anchor.inverse(), limits
        )

    def damping(self, dof: int) -> float:
        return float(np.ravel(self.model.dof_damping[dof])[0])
