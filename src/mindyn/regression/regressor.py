"""`Regressor`: the columns that explain the torque of each joint: base, drive and friction-shape columns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import casadi
import numpy as np
from numpy.typing import NDArray

from mindyn.equations.catalogue import build_equation
from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.equations.loop_closure import primary_friction
from mindyn.equations.mlc_dynamics import mlc_inverse_dynamics
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, unknown_name_error
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.loop_friction import varying_friction
from mindyn.kernels.model import compile_model
from mindyn.logs.loop_follower import all_joint_positions
from mindyn.logs.samples import Samples
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.lin import LinStructure, lin_base, lin_base_with_drives, lin_structure
from mindyn.parameters.parameter import (
    Kind,
    Parameter,
    friction_parameter,
    joint_side_parameters,
    list_base_parameters,
    standard_parameters,
)
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings
from mindyn.robots.drive_matrices import drive_load_matrix, explain_unknown_load
from mindyn.robots.floating_base import BASE_COUNT
from mindyn.robots.friction_laws import LOAD_SHAPES
from mindyn.robots.parts import Drive
from mindyn.robots.robot import CACHED_ROBOTS, Robot

RIGID: Final[tuple[Kind, ...]] = ("link", "rotor")
"""Kinds of parameters whose torque is the load of friction."""
CACHED_ROWS: Final = 1024
"""Number of rows in one call of the kernel, chosen so that its output stays in the cache until it is read."""
Parts = list[list[Array]]
"""For each joint, arrays (N, k); their columns side by side are the joint's row of the regressor."""


@dataclass(frozen=True, slots=True, eq=False)
class _FrictionColumn:
    """A column of the direction or the speed of one friction: torque weights[j] * values at every joint j.

    varies  whether the weights depend on q; then `friction_rows` gives them, and `weights` marks those that are not
    zero
    """

    parameter: Parameter
    source: int
    shape: str
    weights: Array
    varies: bool = False


def with_estimated_drives(robot: Robot) -> Robot:
    """Return the robot with a drive (unit ratio, joint side) on every primary joint without one.

    Rotor inertia, viscous and Coulomb friction and offset of these joints thereby become parameters. No drive is added
    to the joints of a floating base.

    Parameters
    ----------
    robot : Robot
        Robot to complete.

    Returns
    -------
    Robot
        The completed robot; the same robot if every joint has a drive.
    """
    stated = {drive.joint: drive for drive in robot.drives}
    free = robot.joint_names[: BASE_COUNT if robot.has_floating_base else 0]
    wanted = {*stated, *robot.primary_names} - ({*free} - {*stated})
    driven = [name for name in robot.joint_names if name in wanted]
    return replace(robot, drives=tuple(stated.get(name, Drive(name)) for name in driven))


class Regressor:
    """Y (N, n, count) with tau = Y beta, kept as its structurally nonzero columns for each joint.

    joint_names  names of the rows: the primary joints; without loops, these are all n joints
    parameters   estimated parameters: those of the base set, then friction shapes and joint-side friction
    names        names of the parameters
    columns      for each joint the numbers of the parameters that its torque depends on
    """

    def __init__(
        self,
        robot: Robot,
        friction: Friction | None = None,
        base: BaseParameters | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        self.robot = robot
        self.friction = friction or Friction()
        self.joint_names = robot.primary_names
        for name in self.friction.joint_side:
            if name not in self.joint_names:
                raise unknown_name_error("joint", name, self.joint_names)
        for name, _ in self.friction.without:
            if name not in robot.joint_names:
                raise unknown_name_error("joint", name, robot.joint_names)
        drives = bool(robot.drives or robot.extras) if base is None else base.with_drives
        self.base, self.kernel = _own_base(robot, drives) if base is None else (base, kernel or _kernel(robot, base))
        nonzeros = self.kernel.nonzeros("Y")
        rows, columns = self._places = np.divmod(nonzeros, self.base.count)
        self._starts: list[int] = np.searchsorted(rows, np.arange(self.joint_count + 1)).tolist()
        self._matrix = primary_friction(robot) if drives else np.zeros((0, self.joint_count))
        self._varying = varying_friction(robot) if drives else None
        self._scales = _joint_scales(robot) if drives else np.ones(0)
        self._coulomb = self._coulomb_places(rows, columns)
        declared = {k for k, name in enumerate(self.base.names) if name in {extra.name for extra in robot.extras}}
        self._declared = [(int(place), self.base.names[k]) for place, k in enumerate(columns) if k in declared]
        self._shaped = self._shape_columns_of()
        self.parameters = (*list_base_parameters(self.base), *(shape.parameter for shape in self._shaped))
        self.names = tuple(parameter.name for parameter in self.parameters)
        self.columns = tuple(self._joint_columns(i, columns) for i in range(self.joint_count))
        self._loads = self._load_weights() if self.friction.needs_load else None
        self._require_names()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle robot, friction and base set. The machine code is compiled in the process that unpickles."""
        is_default = self.base.form == "structural" and self.base is _own_base(self.robot, self.base.with_drives)[0]
        if not is_default and self.base.form == "lin":
            return build_regressor, (self.robot, EquationSettings(friction=self.friction, base_form="lin"))
        return Regressor, (self.robot, self.friction, None if is_default else self.base)

    def with_friction(self, friction: Friction) -> Regressor:
        """Return the regressor with other friction columns; both regressors share the base set and the compiled
        kernel.
        """
        return Regressor(self.robot, friction, self.base, self.kernel)

    @property
    def joint_count(self) -> int:
        """Number of rows of a sample."""
        return len(self.joint_names)

    @property
    def unforced(self) -> tuple[str, ...]:
        """Joints without a motor: the joints of a floating base."""
        return self.robot.joint_names[: BASE_COUNT if self.robot.has_floating_base else 0]

    @property
    def count(self) -> int:
        """Number of parameters."""
        return len(self.names)

    def width(self, joint: int) -> int:
        """Return the number of columns of a joint."""
        return len(self.columns[joint])

    def parts(
        self,
        q: Array,
        qd: Array,
        qdd: Array,
        directions: Array | None = None,
        out: Array | None = None,
    ) -> Parts:
        """Return the columns of every joint at samples (N, n).

        `directions` are the result of the method `directions`.
        """
        return self.with_friction_columns(self.columns_of_kernel(q, qd, qdd, out), q, qd, qdd, directions)

    def columns_of_kernel(self, q: Array, qd: Array, qdd: Array, out: Array | None = None) -> Array:
        """Return the columns (N, .) that do not depend on the friction settings, all joints side by side."""
        compact = np.empty((len(q), *self.kernel.output_shapes[0])) if out is None else out
        for first in range(0, len(q), CACHED_ROWS):
            taken = slice(first, first + CACHED_ROWS)
            self.kernel(q[taken], qd[taken], qdd[taken], out=compact[taken])
        self._require_finite(compact, q)
        return compact

    def with_friction_columns(self, compact: Array, q: Array, qd: Array, qdd: Array, directions: Array | None) -> Parts:
        """Return the columns of every joint: `columns_of_kernel` with the friction columns inserted."""
        joint_parts: Parts = [[compact[:, start:stop]] for start, stop in pairwise(self._starts)]
        if directions is not None:
            for place, source, weight in self._coulomb:
                np.multiply(directions[:, source], weight, out=compact[:, place])
            load = None if self._loads is None else self._load(compact, q, qd, qdd)
            self._add_varying(compact, q, directions)
            if self._shaped:
                self._add_shapes(joint_parts, q, qd, directions, load)
        return joint_parts

    def column_keys(self, joint: int) -> list[Hashable]:
        """Return a key for each column of a joint, by which columns of several regressors are compared.

        Columns of regressors with different friction models have equal keys if they are equal functions of the motion.
        """
        friction, start, stop = self.friction, *self._starts[joint : joint + 2]
        dry = {place for place, *_ in (*self._coulomb, *self.varying_coulomb)}
        numbers = self.columns[joint].tolist()
        keys: list[Hashable] = [
            (number, friction.motion_key) if place in dry else number
            for place, number in zip(range(start, stop), numbers, strict=False)
        ]
        for number in numbers[stop - start :]:
            shape = self._shaped[number - self.base.count]
            load = friction.reference if shape.shape in LOAD_SHAPES else ()
            keys.append((shape.parameter.name, friction.law(shape.shape), friction.motion_key, load))
        return keys

    def positions(self, samples: Samples, taken: slice = slice(None)) -> Array:
        """Return the positions q that `parts` takes; they include dependent joints if loops are solved numerically."""
        return all_joint_positions(self.robot, samples.take(taken)) if self.robot.has_dependents else samples.q[taken]

    @property
    def has_directions(self) -> bool:
        """Return whether the columns need `directions`.

        If not, the kernel computes the direction as the sign of the speed.
        """
        return self.friction.direction != "sign" or bool(self._shaped)

    def directions(self, q: Array, qd: Array, segments: NDArray[np.int64], rate_hz: float) -> Array | None:
        """Return the direction (N, sources) of every friction; None if the kernel uses the sign of the speed."""
        if not self.has_directions:
            return None
        return self.friction.directions(self.friction_speeds(q, qd), segments, rate_hz)

    def dense(self, parts: Parts) -> Array:
        """Return Y (N, n, count)."""
        Y = np.zeros((len(parts[0][0]), len(parts), self.count))
        for i, (columns, arrays) in enumerate(zip(self.columns, parts, strict=True)):
            Y[:, i, columns] = np.concatenate(arrays, axis=1)
        return Y

    def friction_speeds(self, q: Array, qd: Array) -> Array:
        """Return the speeds on which friction acts, joint side: those of every drive, then those of the joints in
        `joint_side`.

        q  (N, k) or (N, n), as in `parts`; used if a friction moves with a dependent joint of a solved loop
        """
        joints = [self.joint_names.index(name) for name in self.friction.joint_side]
        matrix = np.concatenate([self._matrix / self._scales[:, None], np.eye(self.joint_count)[joints]])
        u: Array = qd @ matrix.T
        if self._varying is not None:
            sources = list(self._varying.sources)
            u[:, sources] = np.einsum("nsk,nk->ns", self._varying.rows(q), qd) / self._scales[sources]
        return u

    @property
    def varying_coulomb(self) -> list[tuple[int, int, int]]:
        """Return the positions of Coulomb columns that vary with q in the output of the kernel, with their drive and
        joint.
        """
        if self._varying is None:
            return []
        rows, columns = self._places
        return [
            (int(place), k, joint)
            for k, column in self._coulomb_columns().items()
            for joint in self._varying.joints(k)
            for place in np.flatnonzero((rows == joint) & (columns == column))
        ]

    def _coulomb_places(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> list[tuple[int, int, float]]:
        """Return the indices of Coulomb columns in the compact output, with their drive and weight."""
        places = []
        for k, column in self._coulomb_columns().items():
            for joint in np.flatnonzero(self._matrix[k]):
                (place,) = np.flatnonzero((rows == joint) & (columns == column))
                sign = np.sign(self._scales[k])
                places.append((int(place), k, float(sign * self._matrix[k, joint])))
        return places

    def _add_varying(self, compact: Array, q: Array, directions: Array) -> None:
        """Set the Coulomb columns of friction on dependent joints, whose weights vary with q."""
        if self._varying is None:
            return
        rows = self._varying.rows(q)
        for place, k, joint in self.varying_coulomb:
            weight = np.sign(self._scales[k]) * rows[:, self._varying.number(k), joint]
            compact[:, place] = weight * directions[:, k]

    def _coulomb_columns(self) -> dict[int, int]:
        """Return the column of the Coulomb friction of each drive; drives that a loop couples share the first
        column.
        """
        standard = standard_parameters(self.robot, with_drives=self.base.with_drives)
        coulomb_names = [parameter.name for parameter in standard if parameter.kind == "coulomb"]
        named = [(k, name) for k, label in enumerate(coulomb_names) for name in (label, f"{label}R")]
        return {k: self.base.names.index(name) for k, name in named if name in self.base.names}

    def _shape_columns_of(self) -> list[_FrictionColumn]:
        drives = self.robot.drives if self.base.with_drives else ()
        columns = []
        dry = self._coulomb_columns()
        for k, drive in enumerate(drives):
            # A drive that a loop keeps in step with another has its shapes there; loads are of primary joints alone.
            loaded = drive.joint in self.joint_names
            own = self.friction.shapes_of(drive.joint)
            shapes = [shape for shape in own if (loaded if shape in LOAD_SHAPES else k in dry)]
            joint, weights = drive.joint, self._matrix[k] / self._scales[k]
            varies = self._varying is not None and k in self._varying.sources
            if varies and self._varying is not None:
                weights = np.isin(np.arange(self.joint_count), self._varying.joints(k)).astype(np.float64)
            for shape in shapes:
                columns.append(
                    _FrictionColumn(
                        friction_parameter(self.robot, joint, self.friction.law(shape)), k, shape, weights, varies
                    )
                )
        for k, joint in enumerate(self.friction.joint_side, len(drives)):
            unit = np.eye(self.joint_count)[self.joint_names.index(joint)]
            viscous, coulomb = joint_side_parameters(self.robot, joint)
            columns += [_FrictionColumn(viscous, k, "speed", unit), _FrictionColumn(coulomb, k, "direction", unit)]
        return columns

    def _joint_columns(self, joint: int, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        base = columns[self._starts[joint] : self._starts[joint + 1]]
        shaped = [self.base.count + k for k, shape in enumerate(self._shaped) if shape.weights[joint]]
        return np.asarray([*base, *shaped], dtype=np.intp)

    @property
    def rigid(self) -> NDArray[np.bool_]:
        """Return (count,) which parameters belong to links and rotors: their torque is the load of friction."""
        return np.array([parameter.kind in RIGID for parameter in self.parameters], dtype=np.bool_)

    def load_obstacle(self) -> str:
        """Return why friction cannot depend on the load; empty if it can."""
        if not self.base.with_drives:
            return "the model has no drives, so it has no friction"
        if obstacle := explain_unknown_load(self.robot):
            return obstacle
        rigid = np.array([parameter.kind in RIGID for parameter in standard_parameters(self.robot, with_drives=True)])
        mixed = self.base.matrix[:, rigid].any(axis=1) & self.base.matrix[:, ~rigid].any(axis=1)
        if mixed.any():
            return f"{self.names[int(np.argmax(mixed))]} combines the weight of a link and the offset of a drive"
        return ""

    def _load_weights(self) -> tuple[list[Array], Array]:
        """Return weights of columns whose sum is the load of each joint, and L (n, drives): drives carry load L."""
        if obstacle := self.load_obstacle():
            raise InputError(
                f"friction cannot depend on the load: {obstacle}",
                hint="remove these shapes from the friction",
                code=Code.UNSUPPORTED,
                subject="friction",
            )
        reference = np.asarray(self.friction.reference, dtype=np.float64)
        if reference.shape != (self.base.count,):
            raise InputError(
                f"friction that depends on the load needs a reference of {self.base.count} base values, "
                f"got {len(reference)}",
                hint="identify(robot, logs, settings=...) estimates it",
                code=Code.MISSING_VALUE,
                subject="reference",
            )
        weights = np.where(self.rigid[: self.base.count], reference, 0.0)
        joint_weights = [weights[columns[columns < self.base.count]] for columns in self.columns]
        return joint_weights, drive_load_matrix(self.robot)[[self.robot.joint_index(name) for name in self.joint_names]]

    def _load(self, compact: Array, q: Array, qd: Array, qdd: Array) -> Array:
        """Return the load (N, drives) of every drive, joint side."""
        assert self._loads is not None
        joint_weights, L = self._loads
        split = zip(pairwise(self._starts), joint_weights, strict=True)
        joints = np.stack([compact[:, start:stop] @ weights for (start, stop), weights in split], axis=1)
        carried = self.carried_torque(q, qd, qdd)
        return np.asarray((joints if carried is None else joints + carried) @ L)

    def carried_torque(self, q: Array, qd: Array, qdd: Array) -> Array | None:  # noqa: ARG002 - of regressors with a load
        """Return the torque (N, n) that joints carry in addition to the load of the reference; None if there is
        none.
        """
        return None

    def _add_shapes(self, joint_parts: Parts, q: Array, qd: Array, directions: Array, load: Array | None) -> None:
        u = self.friction_speeds(q, qd)
        rows = None if self._varying is None else self._varying.rows(q)
        laws = {}
        for name in {shape.shape for shape in self._shaped}:
            carried = load if name in LOAD_SHAPES else None
            taken = slice(None if carried is None else carried.shape[1])  # drives alone carry a load
            laws[name] = self.friction.law(name).values(u[:, taken], directions[:, taken], carried)
        for shape in self._shaped:
            k = shape.source
            for joint in np.flatnonzero(shape.weights):
                weight = shape.weights[joint]
                if shape.varies and rows is not None and self._varying is not None:
                    weight = rows[:, self._varying.number(k), joint] / self._scales[k]
                joint_parts[joint].append((weight * laws[shape.shape][:, k])[:, None])

    def _require_finite(self, compact: Array, q: Array) -> None:
        """Raise if a formula of the user has no value at a sample."""
        for place, name in self._declared:
            finite = np.isfinite(compact[:, place])
            if not finite.all():
                sample = int(np.argmin(finite))
                where = f"sample {sample}, q = {q[sample].tolist()}"
                raise InputError(
                    f"the extra torque {name!r} has no finite value at {where}", code=Code.NOT_FINITE, subject=name
                )

    def _require_names(self) -> None:
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise InputError(
                f"parameter names must be unique; repeated: {', '.join(repeated)}",
                code=Code.DUPLICATE,
                subject=repeated[0],
            )


def build_regressor(robot: Robot, settings: EquationSettings, base: BaseParameters | None = None) -> Regressor:
    """Return the regressor for the settings; `base` replaces the base set that the settings name."""
    if base is not None:
        return Regressor(robot, settings.shape, base)
    if settings.base_form == "lin":
        return Regressor(robot, settings.shape, *lin_columns(robot))
    if settings.base_form == "structural":
        return Regressor(robot, settings.shape)
    drives = bool(robot.drives or robot.extras)
    return Regressor(robot, settings.shape, base_parameters(robot, settings.base_form, with_drives=drives))


@lru_cache(maxsize=4)
def lin_columns(robot: Robot) -> tuple[BaseParameters, Kernel]:
    """Return Lin's base set (with drive parameters if the robot has drives), and the function for Y with tau = Y w."""
    base = lin_base_with_drives(robot) if robot.drives else lin_base(robot)
    return base, Kernel(mlc_regressor(lin_structure(robot), base), compact=["Y"], matrices=["Y"])


def mlc_regressor(structure: LinStructure, base: BaseParameters) -> Any:
    """Return the `casadi.Function` (q, qd, qdd) -> Y (n, count) with tau = Y w [Lin 1995, eq. 57-92 and 94-116].

    Columns of drive parameters, if the base set has them, are those of the structural set.
    """
    n, count = len(structure.joints), len(structure.layout)
    motion = [casadi.SX.sym(name, n) for name in ("q", "qd", "qdd")]
    mlc = casadi.SX.sym("mlc", count)
    Y = casadi.jacobian(mlc_inverse_dynamics(structure, mlc, *motion), mlc)
    if base.with_drives:
        Y = casadi.horzcat(Y, build_equation(base.robot, "regressor", with_drives=True)(*motion)[:, count:])
    return casadi.Function("mlc_regressor", motion, [casadi.cse(Y)], ["q", "qd", "qdd"], ["Y"])


@lru_cache(maxsize=CACHED_ROBOTS)
def _own_base(robot: Robot, with_drives: bool) -> tuple[BaseParameters, Kernel]:
    """Return the robot's base set and its kernel. Tracing a 6R arm takes 0.2 s, longer than a fit to 4000 rows."""
    base = base_parameters(robot, with_drives=with_drives)
    return base, _kernel(robot, base)


def _kernel(robot: Robot, base: BaseParameters) -> Kernel:
    return compile_model(robot, with_drives=base.with_drives, base=base).kernel("regressor", compact=True)


def _joint_scales(robot: Robot) -> Array:
    """Return the motor turns for each turn of the joint if friction acts on the motor, otherwise 1."""
    return np.array([drive.ratio if drive.side == "motor" else 1.0 for drive in robot.drives])
