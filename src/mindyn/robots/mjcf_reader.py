"""Read MJCF with MuJoCo (extra `mjcf`): MuJoCo compiles the file, mindyn reads the compiled tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import rotation_about_axis, rotation_from_quaternion
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, RobotFileError
from mindyn.foundation.findings import Kind, info, summarise
from mindyn.foundation.notation import PARAMETERS_PER_LINK
from mindyn.foundation.safe_reading import InputBudget
from mindyn.robots.description import AnyJoint, Description, FixedJoint, UnsupportedJoint
from mindyn.robots.mjcf_loops import read_loops
from mindyn.robots.mjcf_source import CompiledMjcf, compile_for_dynamics
from mindyn.robots.parts import Drive, ExtraTorque, Frame, Joint, JointKind, Limits, Link, Mimic
from mindyn.robots.safe_robot_files import MAX_FILE_NUMBER
from mindyn.robots.snapping import LIMIT_SUMMARIES, Snapper
from mindyn.robots.springs import Spring


def read_mjcf(path: Path, snap: Snapper, text: str | None = None) -> Description:
    """Read the description of an MJCF file, or of `text` instead of its content; the world body is the root."""
    source = compile_for_dynamics(path, text)
    model = source.model
    InputBudget(path.name, 0, RobotFileError).take_bodies(int(model.nbody))
    for what in ("body_mass", "body_inertia", "body_pos", "body_ipos", "jnt_pos", "qpos0", "body_quat", "body_iquat"):
        if not (np.abs(getattr(model, what)) <= MAX_FILE_NUMBER).all():
            message = f"{path.name}: {what} is not finite or larger than {MAX_FILE_NUMBER:g} in SI units"
            raise RobotFileError(message, code=Code.OUT_OF_RANGE, subject=what)
    return _MjcfReader(source.mujoco, model, snap, source).description(path.stem)


@dataclass(slots=True)
class _MjcfReader:
    mujoco: Any
    model: Any
    snap: Snapper
    source: CompiledMjcf
    links: list[Link] = field(default_factory=list)
    joints: list[AnyJoint] = field(default_factory=list)
    drives: list[Drive] = field(default_factory=list)
    springs: list[ExtraTorque] = field(default_factory=list)

    def description(self, fallback_name: str) -> Description:
        for body in range(self.model.nbody):
            self.body(body)
        mimics, others = self.equalities()
        movable = {joint.name for joint in self.joints if isinstance(joint, Joint)}
        closing = [k for k in others if self.closes_loop(k)]
        closed = read_loops(self.source, closing, movable, mimics)
        ignored = {
            "equality constraints": len(others) - len(closing),
            "nonlinear springs and dampers": self.count_nonlinear(),
            "gravity compensations": np.count_nonzero(self.model.body_gravcomp),
            "fluid forces": int(self.model.opt.density > 0 or self.model.opt.viscosity > 0),
        }
        notes = [
            info(Kind.DROPPED_PART, f"{count} {what} of the MJCF were dropped")
            for what, count in ignored.items()
            if count
        ]
        file_name = self.model.names[: self.model.names.index(b"\0")].decode()
        return Description(
            file_name or fallback_name,
            tuple(self.links),
            tuple(self.joints),
            self.gravity(),
            frames=tuple(self.sites(closed.sites)),
            drives=tuple(self.drives),
            extras=tuple(self.springs),
            mimics=tuple(mimics),
            loops=closed.loops,
            home=closed.home,
            findings=summarise([*self.source.findings, *notes, *closed.findings, *self.snap.findings], LIMIT_SUMMARIES),
        )

    def gravity(self) -> Array:
        """Return the gravity of the simulation; it is zero if the file disables gravity."""
        disabled = int(self.model.opt.disableflags) & int(self.mujoco.mjtDisableBit.mjDSBL_GRAVITY)
        return np.zeros(3) if disabled else np.array(self.model.opt.gravity)

    def closes_loop(self, k: int) -> bool:
        """Return whether an equality is an active <connect> or <weld>."""
        kinds = int(self.mujoco.mjtEq.mjEQ_CONNECT), int(self.mujoco.mjtEq.mjEQ_WELD)
        return int(self.model.eq_type[k]) in kinds and bool(self.model.eq_active0[k])

    def equalities(self) -> tuple[list[Mimic], list[int]]:
        """Return the joints that follow another one linearly, and the numbers of the other equalities.

        MuJoCo holds q1 - r1 at a polynomial of q2 - r2, r the initial positions of the file.
        """
        model, mimics, others = self.model, [], list[int]()
        for k in range(model.neq):
            coefficients = [float(value) for value in model.eq_data[k][:5]]
            joints = model.eq_obj1id[k], model.eq_obj2id[k]
            is_joint = int(model.eq_type[k]) == int(self.mujoco.mjtEq.mjEQ_JOINT)
            if is_joint and min(joints) < 0 and model.eq_active0[k]:
                self.report_held_joint(int(joints[0]), coefficients[0])
            if not is_joint or min(joints) < 0 or any(coefficients[2:]) or not model.eq_active0[k]:
                others.append(k)
                continue
            r1, r2 = (float(model.qpos0[model.jnt_qposadr[j]]) for j in joints)
            names = [self.source.name("joint", j) for j in joints]
            offset, multiplier = coefficients[:2]
            mimics.append(Mimic(names[0], names[1], multiplier, r1 + offset - multiplier * r2))
        return mimics, others

    def report_held_joint(self, joint: int, offset: float) -> None:
        """Add a finding about a joint that the file holds, with its position and how to hold it."""
        name, at = self.source.name("joint", joint), float(self.model.qpos0[self.model.jnt_qposadr[joint]]) + offset
        message = (
            f"the MJCF holds joint {name!r} at {at:g} by an equality, mindyn does not; use lock={{{name!r}: {at:g}}}"
        )
        self.snap.findings.append(info(Kind.DROPPED_PART, message))

    def pose(self, quaternion: Any, translation: Any, what: str) -> Pose:
        return Pose(self.snap.rotation(rotation_from_quaternion(*quaternion), what), translation)

    def sites(self, closing: frozenset[int]) -> Iterator[Frame]:
        """Yield the sites as frames, except the sites that define loops."""
        bodies = {link.name for link in self.links}
        for site in (site for site in range(self.model.nsite) if site not in closing):
            name = self.source.name("site", site)
            name = f"site {name}" if name in bodies else name  # MuJoCo allows a body and a site of the same name
            pose = self.pose(self.model.site_quat[site], self.model.site_pos[site], f"site {name!r}")
            yield Frame(name, self.source.name("body", self.model.site_bodyid[site]), pose)

    def body(self, body: int) -> None:
        """Add the link of a body and its joints, with massless links between several joints of one body."""
        name = self.source.name("body", body)
        self.links.append(Link(name, self.phi(body)))
        if body == 0:
            return
        parent = self.source.name("body", self.model.body_parentid[body])
        pose = self.pose(self.model.body_quat[body], self.model.body_pos[body], f"body {name!r}")
        count, first = self.model.body_jntnum[body], self.model.body_jntadr[body]
        if count == 0:
            self.joints.append(FixedJoint(f"{name} fixed", parent, name, pose))
        for k in range(first, first + count):
            child = name if k == first + count - 1 else f"{name}/{self.source.name('joint', k)}"
            if child != name:
                self.links.append(Link(child, np.zeros(PARAMETERS_PER_LINK)))
            self.joints.append(self.any_joint(k, parent, child, pose))
            parent, pose = child, IDENTITY

    def phi(self, body: int) -> Any:
        if self.source.name("body", body) in self.source.unknown:
            return None
        X = Pose(rotation_from_quaternion(*self.model.body_iquat[body]), self.model.body_ipos[body])
        J = X.rotation @ np.diag(self.model.body_inertia[body]) @ X.rotation.T
        return phi_about_origin(self.model.body_mass[body], X.translation, J)

    def any_joint(self, k: int, parent: str, child: str, pose: Pose) -> AnyJoint:
        name, kind = self.source.name("joint", k), int(self.model.jnt_type[k])
        if kind == int(self.mujoco.mjtJoint.mjJNT_FREE):
            self.snap.findings.append(
                info(Kind.HELD_JOINT, f"joint {name!r} is free: mindyn holds {child!r}, so the base is fixed")
            )
            return FixedJoint(name, parent, child, pose, held=True)
        if kind == int(self.mujoco.mjtJoint.mjJNT_BALL):
            error = RobotFileError(
                f"joint {name!r} is a ball joint; mindyn supports hinges and slides",
                hint=f"hold it: lock={{{name!r}: 0.0}}, --lock {name}=0",
                code=Code.UNSUPPORTED,
                subject=name,
            )
            return UnsupportedJoint(name, parent, child, pose, error)
        turns = kind == int(self.mujoco.mjtJoint.mjJNT_HINGE)
        return self.joint(k, "revolute" if turns else "prismatic", parent, child, pose)

    def joint(self, k: int, kind: JointKind, parent: str, child: str, pose: Pose) -> Joint:
        name, model = self.source.name("joint", k), self.model
        axis = self.snap.axis(model.jnt_axis[k], f"axis of joint {name!r}")
        start = model.qpos0[model.jnt_qposadr[k]]
        anchor = Pose(None, model.jnt_pos[k])
        zero = Pose(rotation_about_axis(axis, -start)) if kind == "revolute" else Pose(None, -start * axis)
        dof = model.jnt_dofadr[k]
        armature, viscous, coulomb = (
            model.dof_armature[dof],
            np.ravel(model.dof_damping[dof])[0],
            model.dof_frictionloss[dof],
        )
        if armature or viscous or coulomb:
            self.drives.append(Drive(name, 1.0, {}, float(armature), float(viscous), float(coulomb), 0.0, "joint"))
        if model.jnt_stiffness[k]:
            rest = float(model.qpos_spring[model.jnt_qposadr[k]])
            self.springs.append(Spring(float(model.jnt_stiffness[k]), rest).to_extra_torque(name))
        return Joint(name, kind, parent, child, pose @ anchor @ zero, axis, anchor.inverse(), self.limits(k, name))

    def count_nonlinear(self) -> int:
        """Count joints with a nonlinear spring or damper (polynomial or yielding, in MuJoCo since version 4)."""
        terms = ("jnt_stiffnesspoly", "jnt_springyield", "dof_dampingpoly")
        arrays = [np.asarray(getattr(self.model, term)) for term in terms if hasattr(self.model, term)]
        return sum(int(values.any(axis=tuple(range(1, values.ndim))).sum()) for values in arrays)

    def limits(self, k: int, name: str) -> Limits:
        stated = dict(zip(("lower", "upper"), map(float, self.model.jnt_range[k]), strict=True))
        stated = stated if self.model.jnt_limited[k] else {}
        if self.model.jnt_actfrclimited[k]:
            stated["effort"] = float(self.model.jnt_actfrcrange[k][1])
        shown = {key: f"{value:g}" for key, value in stated.items()}
        return self.snap.limits(stated, shown, f"joint {name!r}")
