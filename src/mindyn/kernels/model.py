"""`Model`: a robot's equations as kernels that are compiled at the first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from mindyn.equations.catalogue import (
    EQUATIONS,
    FRAME_EQUATIONS,
    INVERSE_DYNAMICS_EQUATIONS,
    SERIAL_EQUATIONS,
    SYMBOLS,
    Function,
    build_equation,
)
from mindyn.equations.closed_motion import CLOSURE
from mindyn.equations.equation_verification import COMPARATORS, ReferenceDynamics, deviation_error, equation_deviation
from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.equations.loop_closure import with_home
from mindyn.equations.loop_equations import has_projection, loop_equation
from mindyn.equations.traces import NEEDS_BEYOND_BASE, Parameters
from mindyn.foundation.algebra.values import Array, hashable_content
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, InputError, RobotError, list_names, require_choice, unknown_name_error
from mindyn.kernels.bound_kernel import BoundKernel
from mindyn.kernels.closed_kernel import make_kernel
from mindyn.kernels.code_files import write_code
from mindyn.kernels.cuda_source import cuda_source
from mindyn.kernels.derivatives import forward_dynamics_jacobians, gradients, jacobians
from mindyn.kernels.external_wrench import ContactKind, ExternalWrench, estimate_wrench
from mindyn.kernels.gpu import GpuModel
from mindyn.kernels.kernel import Kernel
from mindyn.kernels.numerics.cache import load_or_build
from mindyn.kernels.operation_counts import OperationCounts, operation_counts
from mindyn.kernels.source_text import Facts, SourceFunction
from mindyn.kernels.tracing import trace
from mindyn.parameters.base_parameters import BaseParameters
from mindyn.parameters.base_set_verification import Deviation, standard_set
from mindyn.robots.robot import Robot, require_robot

Precision = Literal["float64", "float32"]

FunctionSelection = str | Sequence[str | tuple[str, str]]
"""Names of equations, or pairs (name, link) for equations of a link or frame."""

SHARED_INPUTS = ("phi", "drive_parameters", "beta")
"""Inputs that are the same for every sample of a batch."""

MATRICES = ("M", "C", "X", "J", "Y", "wrenches")
"""Inputs and outputs that are matrices even if they have one column."""

SINGULAR_INERTIA_HINT = (
    "the inertia matrix is singular: some joint motion moves no inertia; with_drives=True adds the rotors"
)
"""Hint of the error if forward dynamics has no result."""

LINK_FREE_EQUATIONS = tuple(name for name in EQUATIONS if name not in FRAME_EQUATIONS)
"""Equations that do not refer to a link or frame."""


_Key = tuple[str, str, str | None, bool]
"""Kind of a kernel ("equation", "derivatives", "adjoint"), name of the equation, link, and whether it is compact."""


class Model:
    """Kernels of a robot's equations: arrays (..., n) in, (..., n) out, any batch shape.

    Every function takes `out=` (an array to write into) and `threads=`. With `parameters="input"`, the link parameters
    phi (10 n,) follow the motion as a further argument and, with `with_drives=True`, the drive parameters (4 drives +
    extras,) follow phi. With `parameters="base"`, the base parameters beta follow the motion. A robot with dependent
    joints is described by its n primary joints. If its loops must be solved numerically, q may also hold the positions
    of all joints, with dependent joints near their closed positions; this saves the search for them. Kernels are traced
    and compiled at the first use, and cached on disk.

    Create a model with `compile_model`, which documents the parameters.
    """

    def __init__(
        self,
        robot: Robot,
        with_drives: bool,
        base: BaseParameters | None,
        parameters: Parameters,
        dtype: Precision,
        formulations: Mapping[str, str | None],
    ) -> None:
        self.robot, self._formulations = robot, formulations
        self._base, self._own_base, self._notes = base, base is None and not robot.has_dependents, tuple[str, ...]()
        self.with_drives, self.parameters, self.dtype = with_drives, parameters, np.dtype(dtype)
        self._functions: dict[tuple[str, str | None], Function] = {}
        self._kernels: dict[_Key, Kernel] = {}

    def __getstate__(self) -> dict[str, Any]:  # pickle robot and options: the receiver compiles the code
        return {**self.__dict__, "_functions": {}, "_kernels": {}}

    @property
    def base(self) -> BaseParameters:
        """Base set of the regressors: the set that was given to `compile_model`, or the result of `base_parameters`."""
        if self._base is None:
            self._base = base_parameters(self.robot, with_drives=self.with_drives)
        return self._base

    def inverse_dynamics(
        self,
        q: Any,
        qd: Any,
        qdd: Any,
        *given: Any,
        root_motion: Any = None,
        tip_wrench: Any = None,
        out: Any = None,
        threads: int = 1,
    ) -> Array:
        """Compute joint torques from a motion: tau = M(q) qdd + C(q, qd) qd + G(q).

        Parameters
        ----------
        q, qd, qdd : array_like, shape (..., n)
            Positions, velocities and accelerations of the joints (rad, m, s).
        *given : array_like
            phi, drive parameters or beta, if the model takes them at run time.
        root_motion : array_like, shape (..., 9), optional
            Angular velocity w, angular acceleration wd and acceleration a of the origin of a moving root, in root
            components. Gravity keeps the robot's direction; if the root tilts, subtract the change of gravity in root
            components from a.
        tip_wrench : array_like, shape (..., 6), optional
            External moment and force on the last link of a serial robot, in its frame (N m, N).
        out : ndarray, optional
            Array to write into.
        threads : int
            Number of threads.

        Returns
        -------
        ndarray, shape (..., n)
            Torques (N m) or forces (N) of the joints.

        Raises
        ------
        InputError
            If `root_motion` and `tip_wrench` are both given, or an array has a wrong shape or is not finite.
        """
        if root_motion is None and tip_wrench is None:
            return self.kernel("inverse_dynamics").run((q, qd, qdd, *given), out, threads)  # type: ignore[no-any-return]
        if root_motion is not None and tip_wrench is not None:
            raise InputError(
                "inverse_dynamics takes root_motion or tip_wrench, not both in one call",
                code=Code.UNSUPPORTED,
                subject="tip_wrench",
            )
        name = "inverse_dynamics_with_tip_wrench" if root_motion is None else "inverse_dynamics_on_moving_root"
        more = tip_wrench if root_motion is None else root_motion
        return self.kernel(name).run((q, qd, qdd, more, *given), out, threads)  # type: ignore[no-any-return]

    def inverse_dynamics_with_wrenches(
        self, q: Any, qd: Any, qdd: Any, wrenches: Any, *given: Any, out: Any = None, threads: int = 1
    ) -> Array:
        """Compute joint torques (..., n) while external wrenches (..., n, 6) act on the links (moment, force; in link
        frames).
        """
        kernel = self.kernel("inverse_dynamics_with_wrenches")
        return kernel.run((q, qd, qdd, wrenches, *given), out, threads)  # type: ignore[no-any-return]

    def inertia_matrix(self, q: Any, *given: Any, out: Any = None, threads: int = 1) -> Array:
        """Compute the inertia matrix M (..., n, n) at positions q (..., n)."""
        return self.kernel("inertia_matrix").run((q, *given), out, threads)  # type: ignore[no-any-return]

    def bias(self, q: Any, qd: Any, *given: Any, out: Any = None, threads: int = 1) -> Array:
        """Compute C(q, qd) qd + G(q) (..., n): the torques at qdd = 0."""
        return self.kernel("bias").run((q, qd, *given), out, threads)  # type: ignore[no-any-return]

    def gravity(self, q: Any, *given: Any, out: Any = None, threads: int = 1) -> Array:
        """Compute G (..., n): the torques that hold the links at rest, without offsets of drives and without extra
        torques.
        """
        return self.kernel("gravity").run((q, *given), out, threads)  # type: ignore[no-any-return]

    def coriolis(self, q: Any, qd: Any, *given: Any, out: Any = None, threads: int = 1) -> Array:
        """Compute C (..., n, n) from Christoffel's symbols: Mdot - 2 C is skew-symmetric."""
        return self.kernel("coriolis").run((q, qd, *given), out, threads)  # type: ignore[no-any-return]

    def forward_dynamics(self, q: Any, qd: Any, tau: Any, *given: Any, out: Any = None, threads: int = 1) -> Array:
        """Compute the accelerations qdd (..., n) under joint torques tau (..., n)."""
        return self.kernel("forward_dynamics").run((q, qd, tau, *given), out, threads)  # type: ignore[no-any-return]

    def forward_kinematics(self, q: Any, link: str, *, out: Any = None, threads: int = 1) -> Array:
        """Compute the pose (..., 4, 4) of a link or frame in the root frame."""
        return self.kernel("forward_kinematics", link).run((q,), out, threads)  # type: ignore[no-any-return]

    def geometric_jacobian(self, q: Any, link: str, *, out: Any = None, threads: int = 1) -> Array:
        """Compute J (..., 6, n) of a link or frame with (w, v) = J qd, in root components."""
        return self.kernel("geometric_jacobian", link).run((q,), out, threads)  # type: ignore[no-any-return]

    def external_wrench(
        self,
        tau_ext: Any,
        q: Any,
        link: str,
        *,
        torque_deviations: Any = 1.0,
        contact: ContactKind = "surface",
    ) -> ExternalWrench:
        """Estimate the wrench of the environment on a link from the external torques on the joints.

        Parameters
        ----------
        tau_ext : array_like, shape (..., n)
            Torques that the environment applies to the joints, such as the residual of a momentum observer (N m, N).
        q : array_like, shape (..., n)
            Joint positions.
        link : str
            Link or frame at which the contact acts.
        torque_deviations : float or array_like, shape (n,)
            Standard deviations of the external torques, N m or N.
        contact : {"surface", "point"}
            "point": the contact exerts a force at the origin of the frame and no moment.

        Returns
        -------
        ExternalWrench
            Moment and force in the axes of the link, covariance, and the directions that the posture does not observe.

        Raises
        ------
        InputError
            If a shape is wrong, or a torque or deviation is not finite.
        """
        return estimate_wrench(self, tau_ext, q, link, torque_deviations, contact)

    def standard_regressor(self, q: Any, qd: Any, qdd: Any, *, out: Any = None, threads: int = 1) -> Array:
        """Compute Y (..., n, 10 n) with tau = Y phi; drives add four columns each, extra torques one."""
        return self.kernel("standard_regressor").run((q, qd, qdd), out, threads)  # type: ignore[no-any-return]

    def regressor(self, q: Any, qd: Any, qdd: Any, *, out: Any = None, threads: int = 1) -> Array:
        """Compute Y (..., n, count) with tau = Y beta, where beta are the parameters of `base`."""
        return self.kernel("regressor").run((q, qd, qdd), out, threads)  # type: ignore[no-any-return]

    def energy(self, q: Any, qd: Any, *given: Any, out: Any = None, threads: int = 1) -> Array:
        """Compute the kinetic and potential energy (..., 2) in J."""
        return self.kernel("energy").run((q, qd, *given), out, threads)  # type: ignore[no-any-return]

    def energy_regressor(self, q: Any, qd: Any, *, out: Any = None, threads: int = 1) -> Array:
        """Compute Y (..., 2, 10 n) with (kinetic, potential energy) = Y phi."""
        return self.kernel("energy_regressor").run((q, qd), out, threads)  # type: ignore[no-any-return]

    def casadi(self, name: str, link: str | None = None) -> Function:
        """Return the `casadi.Function` of an equation, for MPC and optimal control."""
        if (name, link) not in self._functions:
            if name not in EQUATIONS:
                raise unknown_name_error("equation", name, EQUATIONS)
            self._functions[name, link] = self._certify(name, link) if name in COMPARATORS else self._trace(name, link)
        return self._functions[name, link]

    def _certify(self, name: str, link: str | None) -> Function:
        """Return the traced equation after a comparison with plain Newton-Euler; use standard parameters if it
        deviates.
        """
        of = EQUATIONS[name].regressor_of
        given = "input" if of else self._choose_parameters(name)
        witness = ReferenceDynamics(
            self.robot, self.with_drives, given, self.base if given == "base" or of == "beta" else None
        )
        others = list_alternatives(
            reducible=self.parameters == "constant" and not of, movable=not self.robot.has_dependents
        )
        try:
            tried = others if self._formulations.get(name) is None else ()
            function, notes = certify_equation(lambda *way: self._trace(name, link, *way), witness, tried)
        except RobotError as error:
            if not (self._own_base and of == "beta" and self.parameters != "base"):
                raise
            self._own_base = False
            self._base = standard_set(
                self.robot, with_drives=self.with_drives, note=f"{error.message}; all are kept instead"
            )
            return self._certify(name, link)
        self._notes += notes
        return function

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on nearly degenerate geometry, and on equations that could not use base parameters."""
        return (*self.base.notes, *self._notes)

    def _trace(self, name: str, link: str | None, stated: Parameters | None = None, moved: bool = True) -> Function:
        in_base = self.parameters == "base" or EQUATIONS[name].regressor_of == "beta"
        base = self.base if in_base else None
        parameters = stated or self._choose_parameters(name)
        if self.robot.has_dependents:
            if self._formulations.get(name) is not None:
                raise InputError(
                    f"formulations are for open trees, and robot {self.robot.name!r} has {self.robot.dependence}",
                    code=Code.UNSUPPORTED,
                    subject=name,
                )
            return loop_equation(
                self.robot, name, with_drives=self.with_drives, parameters=parameters, base=base, link=link
            )
        return build_equation(
            self.robot,
            name,
            with_drives=self.with_drives,
            parameters=parameters,
            base=base,
            link=link,
            formulation=self._formulations.get(name),
            check=False,
            moved=moved,
        )

    def _choose_parameters(self, name: str) -> Parameters:
        """Return "input" if a model in base parameters must compute the equation from phi; otherwise the model's own
        choice.
        """
        beyond = self.parameters == "base" and EQUATIONS[name].needs in NEEDS_BEYOND_BASE
        return "input" if beyond else self.parameters

    def kernel(self, name: str, link: str | None = None, *, compact: bool = False) -> Kernel:
        """Return the kernel of an equation; `compact` stores only the structural nonzeros of its output."""
        key = ("equation", name, link, compact)
        if key not in self._kernels:
            self._compile(key, self.casadi(name, link))
        return self._kernels[key]

    def derivatives(self, name: str, link: str | None = None) -> Kernel:
        """Return a kernel with the exact Jacobians of an equation: one output for each input q, qd, ..."""
        key = ("derivatives", name, link, False)
        if key not in self._kernels:
            self._compile(key, self._jacobians(name, link))
        return self._kernels[key]

    def _jacobians(self, name: str, link: str | None) -> Function:
        function = self.casadi(name, link)
        if name == "forward_dynamics" and not self.with_drives and not self.robot.has_dependents:
            inverse, M = self.casadi("inverse_dynamics"), self.casadi("inertia_matrix")
            parameters = [each.name_in()[count:] for each, count in ((function, 3), (inverse, 3), (M, 1))]
            if parameters[0] == parameters[1] == parameters[2]:
                return forward_dynamics_jacobians(function, inverse, M)
        return jacobians(function, EQUATIONS[name].inputs)

    def adjoint(self, name: str, link: str | None = None, *, compact: bool = False) -> Kernel:
        """Return a kernel with the gradients of <V, output> with respect to q, qd, ...

        V has the shape of the output and is the last argument.
        """
        key = ("adjoint", name, link, compact)
        if key not in self._kernels:
            kernel = self.kernel(name, link, compact=True) if compact else None
            places = None if kernel is None else kernel.nonzeros(EQUATIONS[name].output).tolist()
            self._compile(key, gradients(self.casadi(name, link), EQUATIONS[name].inputs, places))
        return self._kernels[key]

    def _compile(self, key: _Key, function: Function) -> None:
        kind, name, _, compact = key
        matrices = [*MATRICES]
        if kind == "derivatives":
            matrices += [output for output in function.name_out() if output != CLOSURE]
        if kind == "adjoint" and EQUATIONS[name].output in MATRICES and not compact:
            matrices.append("V")
        kernel = self._kernels[key] = make_kernel(
            self.robot,
            function,
            dtype=self.dtype,
            shared=[input_name for input_name in function.name_in() if input_name in SHARED_INPUTS],
            compact=function.name_out()[:1] if compact and kind == "equation" else (),
            matrices=matrices,
            not_finite_hint=SINGULAR_INERTIA_HINT if name == "forward_dynamics" else "",
        )
        joints = {"joint_names": self.robot.joint_names, "primary_names": self.robot.primary_names}
        kernel.shape_hints = {
            len(names): f"one value for each of robot.{which}: {list_names(names)}" for which, names in joints.items()
        }

    @property
    def operation_counts(self) -> dict[str, OperationCounts]:
        """Number of operations (multiplications, additions, ...) of one evaluation of each equation; see
        kernels/program.py.
        """
        return {name: operation_counts(self.kernel(name).program) for name in list_equations(self.robot)}

    def bind(self, name: str, link: str | None = None) -> BoundKernel:
        """Return bound arrays for a control loop: a call allocates nothing and checks nothing."""
        return self.kernel(name, link).bind()

    def write_c(
        self,
        path: str | Path,
        functions: FunctionSelection = ("inverse_dynamics",),
        *,
        prefix: str | None = None,
        facts: Facts = (),
    ) -> tuple[Path, ...]:
        """Write equations as C99 that needs only libm: `path` (.c), its header and, for a path ending in .hpp or .py, a
        C++17 header or a Python module.

        The C++ header has the functions on std::array, std::span and Eigen. The Python module calls them through
        ctypes, one sample at a time, and needs NumPy alone.

        Parameters
        ----------
        path : str or Path
            File ending in .c, .hpp or .py.
        functions : str or sequence
            Names of equations; pairs (name, link) for forward_kinematics and geometric_jacobian.
        prefix : str, optional
            Prefix of the C function names, so that exports of several robots can be linked together. The default is the
            name of the file (arm.c: arm_inverse_dynamics); "" leaves the names of the equations.
        facts : sequence of (name, value)
            Further definitions of the header besides joint count and version, such as ("ESTIMATE_SHA256", ...).

        Returns
        -------
        tuple of Path
            The files that were written.
        """
        return write_code(self, path, functions, prefix, facts)

    def write_cuda(self, path: str | Path, functions: FunctionSelection = ("inverse_dynamics",)) -> Path:
        """Write a CUDA file of kernels and launchers, which nvcc or CuPy can compile without other files, and return
        its path.
        """
        return write_file_atomically(path, self.cuda_source(functions))

    def cuda_source(self, functions: FunctionSelection = ("inverse_dynamics",)) -> str:
        """Return the text that `write_cuda` writes."""
        return cuda_source(self.describe_functions(functions), self.title(), SHARED_INPUTS)

    def describe_functions(self, functions: FunctionSelection) -> list[SourceFunction]:
        """Return the programs of equations with descriptions, for source code."""
        listed = [functions] if isinstance(functions, str) else functions
        pairs = [(item, None) if isinstance(item, str) else item for item in listed]
        return [self._describe_function(name, link) for name, link in pairs]

    def _describe_function(self, name: str, link: str | None) -> SourceFunction:
        program = trace(self.casadi(name, link), MATRICES)
        called = f"{name}_{link}" if link else name
        about = f"{EQUATIONS[name].meaning}: {link}" if link else EQUATIONS[name].meaning
        return SourceFunction(program, called, about, SYMBOLS)

    def title(self) -> str:
        """Return a description of the model in one line."""
        driven = "with drives" if self.with_drives else "without drives"
        joints = ", ".join(self.robot.primary_names)
        gravity = " ".join(f"{value:g}" for value in self.robot.gravity)
        return f"Robot {self.robot.name}, joints {joints}; gravity {gravity} m/s^2; {driven}."

    def to_gpu(self) -> GpuModel:
        """Return the equations on a GPU, through CuPy."""
        return GpuModel(self)

    def __repr__(self) -> str:
        return (
            f"Model({self.robot!r}, with_drives={self.with_drives}, parameters={self.parameters!r}, dtype={self.dtype})"
        )


def compile_model(
    robot: Robot,
    *,
    with_drives: bool = False,
    base: BaseParameters | None = None,
    parameters: Parameters = "constant",
    dtype: Precision = "float64",
    inverse_dynamics: str | None = None,
    inertia_matrix: str | None = None,
    forward_dynamics: str | None = None,
    home: ArrayLike | None = None,
) -> Model:
    """Create the kernels of a robot's equations.

    Parameters
    ----------
    robot : Robot
        The robot.
    with_drives : bool
        Include rotor inertia, friction and offsets, also as columns of the regressors.
    base : BaseParameters, optional
        Base set of `Model.regressor`; that of `base_parameters` by default.
    parameters : {"constant", "standard", "input", "base"}
        "constant" compiles the robot's values into the code, in base parameters if possible; "standard" does so with
        the standard parameters. "input" takes phi at run time, "base" takes beta.
    dtype : {"float64", "float32"}
        Precision of the kernels.
    inverse_dynamics, inertia_matrix, forward_dynamics : str, optional
        Name of a formulation (equations/formulations.py), or "auto" for the one with the fewest operations. For forward
        dynamics it is the formulation of its inertia matrix.
    home : array_like, shape (n,), optional
        For a robot with loops, a closed configuration in the intended assembly; by default one near q = 0.

    Returns
    -------
    Model
        Functions on arrays of any batch shape, traced and compiled on first use.

    Raises
    ------
    InputError
        If an option is not one of its choices, or `home` is given for a robot without loops.

    Examples
    --------
    >>> import mindyn
    >>> model = mindyn.compile_model(mindyn.load_robot("puma560"))
    >>> model.gravity([0.0, 0.0, 0.0, 0.0, 0.0, 0.0]).shape
    (6,)
    """
    require_robot(robot, "compile_model")
    require_choice(parameters, get_args(Parameters), "parameters")
    require_choice(dtype, get_args(Precision), "dtype")
    if home is not None and not robot.loops:
        raise InputError(
            f"home= is for robots with loops, and robot {robot.name!r} has none",
            code=Code.UNSUPPORTED,
            subject="home",
        )
    formulations = {
        **dict.fromkeys(INVERSE_DYNAMICS_EQUATIONS, inverse_dynamics),
        **{"inertia_matrix": inertia_matrix, "forward_dynamics": forward_dynamics},
    }
    return Model(with_home(robot, home), with_drives, base, parameters, dtype, formulations)


def list_equations(robot: Robot) -> list[str]:
    """Return the names of the equations that a model of the robot has, except those of a link or frame."""
    names = [name for name in LINK_FREE_EQUATIONS if robot.is_serial or name not in SERIAL_EQUATIONS]
    return [name for name in names if not robot.has_dependents or has_projection(name)]


NEARLY_DEGENERATE_HINT = (
    "the geometry is nearly degenerate: load with snap=True if the file rounds its angles, or use "
    'parameters="standard" and the structural base set'
)


Alternative = tuple[Parameters | None, bool]
"""Parameters of the equation (None: the model's own), and whether its frames may be moved."""


def list_alternatives(*, reducible: bool, movable: bool) -> list[Alternative]:
    """Return the alternatives to try, in order, if a model's own equation deviates from Newton-Euler.

    `reducible`: base parameters were chosen automatically, so that standard parameters may replace them. `movable`:
    frames were moved automatically, so that the frames of the source may replace them.
    """
    ways: list[Alternative] = [("standard", True)] if reducible else []
    return [*ways, ("standard" if reducible else None, False)] if movable else ways


def certify_equation(
    traced: Callable[[Parameters | None, bool], Function],
    witness: ReferenceDynamics,
    others: Sequence[Alternative],
) -> tuple[Function, tuple[str, ...]]:
    """Return the equation if it agrees with Newton-Euler; otherwise return the first alternative that agrees, with a
    note.

    Parameters
    ----------
    traced : callable
        Traces the equation with the given parameters (None: the model's own), in moved frames or not.
    witness : ReferenceDynamics
        The reference to compare with.
    others : sequence of Alternative
        Alternatives in the order in which they are tried.

    Raises
    ------
    RobotError
        If no alternative agrees.
    """
    function = traced(None, True)
    deviation = load_or_compute_deviation(function, witness)
    if not deviation.is_wrong:
        return function, ()
    robot, name, last = witness.robot, function.name(), deviation
    for parameters, moved in others:
        function = traced(parameters, moved)
        last = load_or_compute_deviation(function, witness)
        if not last.is_wrong:
            joint = robot.primary_joints[deviation.joint].name
            whose = "standard parameters" if parameters == "standard" else "its parameters"
            where = "" if moved else " in the frames of the file"
            shorter = f"the shorter form has an error of {deviation.size:.1e} at joint {joint!r}"
            return function, (f"{name} is computed from {whose}{where}: {shorter}",)
    raise deviation_error(robot, name, last, NEARLY_DEGENERATE_HINT)


def load_or_compute_deviation(function: Function, witness: ReferenceDynamics) -> Deviation:
    """Return the deviation of an equation from standard parameters, or its cached value from an earlier comparison."""
    if witness.base is not None and witness.base.survivors is None and witness.base.form == "numeric":
        return Deviation(0, 0.0)  # a constrained set is valid only for parameters that satisfy the constraints

    options = (witness.with_drives, witness.parameters)
    key = ("certificate", function.serialize(), repr(hashable_content(witness.robot)), repr(options))

    def compute() -> bytes:
        deviation = equation_deviation(function, witness)
        return np.array([float(deviation.joint), deviation.size]).tobytes()

    joint, size = np.frombuffer(load_or_build(key, compute, prune=False))
    return Deviation(int(joint), float(size))
