"""Symbolic robots for counting operations: chains of general geometry, and robots whose zeros are known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from mindyn.equations import composite_bodies, kane, mlc_dynamics, mlc_inertia
from mindyn.equations.dh_joints import DhJoint, EndWrench, dh_joint
from mindyn.equations.mlc_links import MlcLink
from mindyn.equations.scalar_vectors import Scalar, Symmetric, Triple, map_scalars
from mindyn.foundation.algebra.rotations import cos_sin
from mindyn.papers.counting import Tape
from mindyn.parameters.lin import LinStructure


def constants(tape: Tape) -> Triple:
    """Return a vector of unknown constants."""
    return Triple(tape.constant(), tape.constant(), tape.constant())


def variables(tape: Tape) -> Triple:
    """Return a vector of variables."""
    return Triple(tape.variable(), tape.variable(), tape.variable())


def general_joint(tape: Tape, slides: bool, *, right_angle: bool = False) -> DhJoint:
    """Return a joint of unknown geometry. R of a prismatic joint counts as variable too: the tables do not fold it."""
    twist: tuple[Scalar, Scalar] = (0.0, 1.0) if right_angle else (tape.constant(), tape.constant())
    turn = (*twist, tape.variable(), tape.variable())
    joint = dh_joint(slides, *turn, tape.constant(), tape.variable() if slides else tape.constant())
    return tape.line("R", joint)


Kind = Literal["sliding", "parallel turn", "parallel slide", "turn", "slide"]
"""A joint's position in Lin's groups: i < r; r <= i < s, rotational or translational; i >= s, likewise."""


def lin_chain(count: int, *, wrench: bool, dense: Collection[str] = (), right_angles: bool = False) -> Tape:
    """Trace Lin's inverse dynamics of a general chain of rotational joints, of which the first is the parallel group.

    Gravity is along z_0, and not along the axis of joint 1 (delta = 1); with `right_angles` between the other axes.
    """
    kinds: list[Kind] = ["parallel turn" if i == 0 else "turn" for i in range(count)]
    return lin_groups_chain(kinds, dense, wrench=wrench, right_angles=right_angles)


def lin_groups_chain(
    kinds: Sequence[Kind], dense: Collection[str], *, wrench: bool = True, right_angles: bool = False
) -> Tape:
    """Trace Lin's inverse dynamics of a chain with joints of every group, with operations charged joint by joint.

    Every joint has its own rotation and lengths; u_r is the axis of a rotational joint of the parallel group, and a
    general constant direction seen from a translational one.
    """
    tape = Tape(dense)
    slides = [kind in ("sliding", "parallel slide", "slide") for kind in kinds]
    joints = [general_joint(tape, slide, right_angle=right_angles and i > 0) for i, slide in enumerate(slides)]
    links = [_link_of_kind(tape, kind) for kind in kinds]
    end = EndWrench(variables(tape), variables(tape), constants(tape)) if wrench else None
    return _lin_trace(tape, joints, links, Triple(0.0, 0.0, tape.constant()), end)


def _link_of_kind(tape: Tape, kind: Kind) -> MlcLink:
    if kind == "sliding":
        return MlcLink("sliding", mass=tape.constant())
    if kind == "parallel turn":
        flat = Triple(tape.constant(), tape.constant(), 0.0)
        return MlcLink(
            "parallel", Triple(0.0, 0.0, 1.0), 0.0, flat, Symmetric(0.0, 0.0, tape.constant(), 0.0, 0.0, 0.0)
        )
    if kind == "parallel slide":
        u, mass = constants(tape), tape.constant()
        return MlcLink("parallel", u, mass, kap1=tape.constant(), kap2=tape.constant())
    if kind == "slide":
        return MlcLink("spatial", mass=tape.constant(), k=constants(tape))
    flat = Triple(tape.constant(), tape.constant(), 0.0)
    return MlcLink("spatial", k=flat, U=Symmetric(tape.constant(), 0.0, *(tape.constant() for _ in range(4))))


def _lin_trace(
    tape: Tape, joints: Sequence[DhJoint], links: Sequence[MlcLink], gravity: Triple, end: EndWrench | None
) -> Tape:
    """Trace both recursions."""
    qd, qdd = ([tape.variable() for _ in joints] for _ in range(2))
    motions = mlc_dynamics.propagate_outward(joints, links, gravity, qd, qdd, tape.line)
    tape.outputs = mlc_dynamics.propagate_inward(joints, links, motions, qd, qdd, end, tape.line)
    return tape


def robot_joints(tape: Tape, structure: LinStructure) -> list[DhJoint]:
    """Return the joints of a robot: twists as numbers, lengths as constants, theta of a prismatic joint as a number."""
    joints = []
    for row, kind in zip(structure.dh.rows, [joint.kind for joint in structure.joints], strict=True):
        lengths = [_make_known(tape, row.a), _make_known(tape, row.d)]
        turn = cos_sin(row.theta) if kind == "prismatic" else (tape.variable(), tape.variable())
        if kind == "prismatic":
            lengths[1] = tape.variable()
        joints.append(tape.line("R", dh_joint(kind == "prismatic", *cos_sin(row.alpha), *turn, *lengths)))
    return joints


def _make_known(tape: Tape, value: float) -> Scalar:
    """Return 0 and +-1 as numbers, any other number as a constant."""
    return value if value in (0.0, 1.0, -1.0) else tape.constant()


def robot_links(tape: Tape, links: Sequence[MlcLink]) -> list[MlcLink]:
    """Return the MLC of a robot as constants, except for zeros."""

    def constant(value: Scalar) -> Scalar:
        return 0.0 if float(value) == 0.0 else tape.constant()

    return [
        MlcLink(
            link.group,
            map_scalars(link.u, lambda value: _make_known(tape, value)),
            constant(link.mass),
            *(map_scalars(link.k, constant), map_scalars(link.U, constant)),
            *(constant(link.kap1), constant(link.kap2)),
        )
        for link in links
    ]


def lin_robot(structure: LinStructure, links: Sequence[MlcLink]) -> Tape:
    """Trace Lin's inverse dynamics of a robot, with the zeros of its geometry and of the given MLC."""
    tape = Tape()
    gravity = Triple(*(_make_known(tape, float(v)) for v in structure.gravity))
    return _lin_trace(tape, robot_joints(tape, structure), robot_links(tape, links), gravity, None)


def _fang_joints(tape: Tape, kind: int, count: int) -> list[DhJoint]:
    """Return the joints of Lin & Fang's robots: all rotational in type 1, joint 3 translational in type 2."""
    return [general_joint(tape, kind == 2 and i == 2) for i in range(count)]


def formulation_chain(number: int, kind: int, count: int, *, dense: Collection[str]) -> Tape:
    """Trace a formulation of the inertia matrix with given m^, c^, J^ [Lin & Fang, table VI]."""
    tape = Tape(dense)
    joints = _fang_joints(tape, kind, count)
    bodies = [
        composite_bodies.Composite(tape.constant(), variables(tape), Symmetric(*(tape.variable() for _ in range(6))))
        for _ in joints
    ]
    tape.outputs = tuple(composite_bodies.FORMULATIONS[number](joints, bodies, tape.line).values())
    return tape


def moments_chain(kind: int, count: int) -> Tape:
    """Trace moments and tensors from MLC [table VII], with X row by row."""
    tape = Tape({"X"})
    joints = _fang_joints(tape, kind, count)
    others = [_link_of_kind(tape, "slide" if joint.slides else "turn") for joint in joints[1:]]
    mlc_inertia.moments(joints, [_link_of_kind(tape, "parallel turn"), *others], tape.line)
    return tape


def kane_chain(count: int, *, dense: Collection[str] = (), gravity: str = "along z") -> Tape:
    """Trace Angeles' algorithm on a general chain of revolute joints."""
    tape = Tape(dense)
    joints = [general_joint(tape, False) for _ in range(count)]
    bodies = [
        kane.CentralBody(tape.constant(), constants(tape), Symmetric(*(tape.constant() for _ in range(6))))
        for _ in joints
    ]
    qd, qdd = ([tape.variable() for _ in joints] for _ in range(2))
    g = Triple(0.0, 0.0, tape.constant()) if gravity == "along z" else variables(tape)
    motions = kane.centre_motions(joints, bodies, g, qd, qdd, tape.line)
    tape.outputs = kane.generalized_forces(joints, bodies, motions, None, tape.line)
    return tape
