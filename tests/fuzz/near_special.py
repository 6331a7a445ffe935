"""Random robots next to special geometry, of any size and weight, from every kind of source; and what must hold.

Deviations are log-uniform in 1e-14 .. 1e-2 from special angles and zero offsets, lengths in 1e-4 .. 1e3, one mass
scale a robot in 1e-6 .. 1e6. Torques are Pinocchio's, of one state in 60 digits too; errors count joint by joint
beside sum_k |Y_ik phi_k|.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pinocchio as pin
from fuzz import digits
from messages import messages
from oracles.pinocchio_oracle import pinocchio_model
from robots import DOWN_X, NONE, OBLIQUE, UP, random_parents, special_rotation

import mindyn
from mindyn import MindynError, compile_model, load_robot, write_mjcf, write_toml, write_urdf
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.algebra.poses import IDENTITY, Pose
from mindyn.foundation.algebra.rotations import rotation_about_axis
from mindyn.parameters.base_set_verification import MAX_RELATIVE_ERROR, sample_states, standard_rows
from mindyn.robots.parts import Joint, Limits, Link
from mindyn.robots.robot import Robot

FORMS = ("lin", "gautier", "general", "mayeda", "numeric")
FORMULATIONS = ("mlc", "kane")
SOURCES = ("python", "urdf", "toml", "mjcf")
ZERO_OFFSET = 6e-17


@dataclass(frozen=True)
class Case:
    """A robot as it is used, and how it came to be."""

    seed: int
    robot: Robot
    source: str
    snapped: bool
    deviation: float
    scale: float
    rejected: str = ""


@dataclass
class Findings:
    """Errors of one case by quantity, rejected forms, and quantities that fell back on standard parameters."""

    errors: dict[str, float] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    fallbacks: tuple[str, ...] = ()

    @property
    def wrong(self) -> dict[str, float]:
        return {what: error for what, error in self.errors.items() if not error <= MAX_RELATIVE_ERROR}


def random_case(seed: int) -> Case:
    rng = np.random.default_rng([seed, 15])
    deviation, scale, mass = 10.0 ** rng.uniform([-14, -4, -6], [-2, 3, 6])
    robot = _robot(rng, seed, deviation, scale, mass)
    source, snapped = SOURCES[int(rng.integers(0, 4))], bool(rng.integers(0, 2))
    if source == "python":
        return Case(seed, robot, source, False, deviation, scale)
    try:
        return Case(seed, _through_file(robot, source, snapped), source, snapped, deviation, scale)
    except MindynError as error:  # MuJoCo takes no inertias below 1e-15, for one
        return Case(seed, robot, "python", False, deviation, scale, f"{source}: {error}")


def _robot(rng, seed: int, deviation: float, scale: float, mass: float) -> Robot:
    n = int(rng.integers(1, 13))
    parents = random_parents(rng, n) if rng.random() < 0.4 else list(range(-1, n - 1))
    through_one_point, names = rng.random() < 0.15, ["base", *(f"link{i + 1}" for i in range(n))]
    joints, links = [], []
    for i, parent in enumerate(parents):
        kind = "prismatic" if rng.random() < 0.25 else "revolute"
        offset = rng.uniform(-0.6, 0.6, 3) * rng.integers(0, 2, 3) * (0.0 if through_one_point else 1.0)
        off = (offset == 0) * (rng.choice([0.0, deviation, ZERO_OFFSET / scale], 3) * rng.normal(size=3))
        turn = rng.normal(size=3)
        size = deviation * 10.0 ** rng.uniform(-1, 0) * (rng.random() < 0.6)
        R = special_rotation(rng) @ rotation_about_axis(turn / np.linalg.norm(turn), size)
        tip = IDENTITY if rng.random() < 0.7 else Pose(special_rotation(rng), rng.uniform(-0.2, 0.2, 3) * scale)
        origin = Pose(R, (offset + off) * scale)
        limits = Limits(-2.0, 2.5, 3.0, effort=100.0)
        joints.append(Joint(f"joint{i + 1}", kind, names[parent + 1], names[i + 1], origin, _axis(rng), tip, limits))
        links.append(Link(names[i + 1], _phi(rng, scale, mass)))
    gravity = (UP, DOWN_X, OBLIQUE, NONE)[int(rng.integers(0, 4))]
    return Robot(f"case{seed}", Link("base"), tuple(joints), tuple(links), np.array(gravity))


def _axis(rng) -> np.ndarray:
    axis = np.eye(3)[int(rng.integers(0, 3))] if rng.random() < 0.3 else np.array([0.0, 0.0, 1.0])
    oblique = rng.normal(size=3)
    return axis if rng.random() < 0.9 else oblique / np.linalg.norm(oblique)


def _phi(rng, scale: float, mass: float) -> np.ndarray:
    size = scale * 10.0 ** rng.uniform(-1.5, -0.3)
    points = (rng.normal(size=(8, 3)) + rng.normal(size=3)) * size
    masses = rng.uniform(0.05, 1.0, 8) * mass * 10.0 ** rng.uniform(-1, 1)
    return sum(phi_about_origin(m, p, np.zeros((3, 3))) for m, p in zip(masses, points, strict=True))


def _through_file(robot: Robot, source: str, snapped: bool) -> Robot:
    """The robot written and read again. Files other than TOML state no gravity of the robot's own."""
    if source != "toml":
        robot = _without_tips(robot)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / {"urdf": "a.urdf", "toml": "a.toml", "mjcf": "a.xml"}[source]
        {"urdf": write_urdf, "toml": write_toml, "mjcf": write_mjcf}[source](robot, path, force=True)
        loaded = load_robot(path, snap=snapped, gravity=robot.gravity)
    assert snapped or not any("taken as" in str(note) for note in messages(loaded))
    return loaded


def _without_tips(robot: Robot) -> Robot:
    """The same joints with the link frames in the joint frames; the links are others."""
    return replace(robot, joints=tuple(replace(joint, tip=IDENTITY) for joint in robot.joints))


class Truth:
    """Torques of standard parameters by Pinocchio, and the sums of the sizes of their terms."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.model = pinocchio_model(robot)
        self.data = self.model.createData()
        self.states = sample_states(robot, 4, seed=99)
        self.size = self.sizes(self.states.q, self.states.qd, self.states.qdd)

    def sizes(self, q, qd, qdd) -> np.ndarray:
        rows = standard_rows(self.robot, replace(self.states, q=q, qd=qd, qdd=qdd))
        return np.abs(rows) @ np.abs(self.robot.phi)

    def torques(self, q, qd, qdd) -> np.ndarray:
        return np.array([pin.rnea(self.model, self.data, *item).copy() for item in zip(q, qd, qdd, strict=True)])

    def error(self, tau, expected, size=None) -> float:
        size = self.size if size is None else size
        share = np.abs(np.asarray(tau) - expected) / np.where(size > 0, size, 1.0)
        return float(np.where(np.isfinite(share), share, np.inf).max())


def _each(function, *arrays) -> np.ndarray:
    return np.array([np.array(function(*item)) for item in zip(*arrays, strict=True)])


def check_case(case: Case, *, thorough: bool = True, compiled: bool = False) -> Findings:
    """All that the issue asks of a case; less thorough, one other equation or form beside inverse dynamics."""
    robot, result = case.robot, Findings()
    truth, model = Truth(robot), compile_model(robot)
    s = truth.states
    expected = truth.torques(s.q, s.qd, s.qdd)
    tau = _each(model.casadi("inverse_dynamics"), s.q, s.qd, s.qdd)[..., 0]
    if (
        not truth.error(tau, expected) <= MAX_RELATIVE_ERROR
    ):  # doubles lose digits in Pinocchio too: then 60 of them decide
        expected = np.array([digits.torques(robot, *item) for item in zip(s.q, s.qd, s.qdd, strict=True)])
    result.errors["inverse_dynamics"] = truth.error(tau, expected)
    result.errors["60 digits"] = truth.error(tau[0], digits.torques(robot, s.q[0], s.qd[0], s.qdd[0]), truth.size[0])
    equations = {"inertia_matrix": _matrix, "regressor": _regressor, "forward_dynamics": _forward}
    others = (*equations, *FORMS, *FORMULATIONS)
    for other in others if thorough else [others[case.seed % len(others)]]:
        if other in equations:
            result.errors[other] = equations[other](truth, model)
            continue
        try:
            result.errors[other] = _form(truth, other) if other in FORMS else _formulation(truth, other, expected)
        except MindynError as error:
            result.rejected[other] = str(error)
    if compiled:
        result.errors["machine code"] = truth.error(model.inverse_dynamics(s.q, s.qd, s.qdd), expected)
    result.fallbacks = model._notes
    return result


def _matrix(truth: Truth, model) -> float:
    s, rest = truth.states, np.zeros_like(truth.states.qd)
    pushed, held = truth.torques(s.q, rest, s.qdd), truth.torques(s.q, rest, rest)
    M = _each(model.casadi("inertia_matrix"), s.q)
    return truth.error(np.einsum("nij,nj->ni", M, s.qdd), pushed - held, truth.sizes(s.q, rest, s.qdd))


def _regressor(truth: Truth, model) -> float:
    s = truth.states
    expected = truth.torques(s.q, s.qd, s.qdd)
    return truth.error(_each(model.casadi("regressor"), s.q, s.qd, s.qdd) @ model.base.values, expected)


def _forward(truth: Truth, model) -> float:
    s = truth.states
    expected = truth.torques(s.q, s.qd, s.qdd)
    qdd = _each(model.casadi("forward_dynamics"), s.q, s.qd, expected)[..., 0]
    if not np.isfinite(qdd).all():
        return (
            0.0 if np.linalg.matrix_rank(_each(model.casadi("inertia_matrix"), s.q[:1])[0]) < s.q.shape[1] else np.inf
        )
    return truth.error(truth.torques(s.q, s.qd, qdd), expected, truth.sizes(s.q, s.qd, qdd))


def _form(truth: Truth, form: str) -> float:
    base, s = mindyn.base_parameters(truth.robot, form), truth.states
    Y = standard_rows(truth.robot, s)
    return truth.error(Y @ (base.embedding @ base.values), Y @ truth.robot.phi)


def _formulation(truth: Truth, name: str, expected) -> float:
    s = truth.states
    f = mindyn.build_equation(truth.robot, "inverse_dynamics", formulation=name)
    return truth.error(_each(f, s.q, s.qd, s.qdd)[..., 0], expected)
