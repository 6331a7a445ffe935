"""Conic programs for Clarabel: a quadratic cost, linear rows in cones, and the duals that prove what was found.

Clarabel is called without a modelling layer: the programs here have a few hundred rows of one fixed shape, and of a
7-joint fit a modelling layer takes longer to write the program down than the solver takes to solve it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import MindynError

ConeKind = Literal["zero", "nonnegative", "second order", "semidefinite", "exponential"]
SOLVER_TOLERANCES: Final = (1e-9, 1e-7)
"""Of gap and feasibility, relative, tried in turn; Clarabel's own default is 1e-8."""
COARSE_TOLERANCE: Final = 1e-6
"""Tolerance of values that are read to three digits."""
REGULARISATIONS: Final = (1e-8, 1e-6, 1e-10)
"""Of Clarabel's factorisations, tried in turn where it ends without an answer; the first is its default."""
DIAGONAL_PLACES: Final = [0, 2, 5, 9]
"""Places of a 4 x 4 matrix's diagonal in its upper triangle, column by column."""
RESIDUAL_DIVISORS: Final = (1.0, 1e2, 1e3)
"""Residuals are divided by these in turn: of a log with hardly any noise they are so large that factorisations fail."""
ACCEPTED_STATUSES: Final = ("Solved", "AlmostSolved")
INFEASIBLE_STATUSES: Final = ("PrimalInfeasible", "AlmostPrimalInfeasible")


class ConicError(MindynError):
    """A conic program has no solution, or none was found."""


class InfeasibleProgramError(ConicError):
    """No values satisfy all rows of a conic program."""


@dataclass(frozen=True, slots=True, eq=False)
class ConeRows:
    """matrix @ x + offset lies in a cone.

    second order  the first row is no less than the length of the others
    semidefinite  rows are the upper triangle, column by column, off-diagonals times sqrt(2); `order` is the matrix's
    exponential   three rows (a, b, c) each: b exp(a / b) <= c
    """

    kind: ConeKind
    matrix: Array
    offset: Array
    order: int = 0

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.offset)


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """x, the cost there, a dual vector for every group of rows, the solver's word, its seconds and iterations."""

    x: Array
    cost: float
    duals: tuple[Array, ...]
    status: str
    seconds: float
    iterations: int


@dataclass(slots=True, eq=False)
class ConicProgram:
    """minimise 1/2 |A x - b|^2 + c.x subject to rows in cones; the squares stand on variables of their own."""

    size: int
    cost: Array = field(init=False)
    squares: list[tuple[Array, Array]] = field(default_factory=list)
    rows: list[ConeRows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cost = np.zeros(self.size)

    def add_variables(self, count: int) -> slice:
        """Room for further variables behind x; rows and squares stated for fewer variables stay as they are."""
        start, self.size = self.size, self.size + count
        self.cost = np.concatenate([self.cost, np.zeros(count)])
        return slice(start, self.size)

    def add_squares(self, A: Array, b: Array) -> None:
        """Add 1/2 |A x - b|^2."""
        self.squares.append((A, b))

    def add_rows(self, *rows: ConeRows) -> None:
        """Add rows."""
        self.rows.extend(rows)

    def solve(self) -> Minimum:
        """The minimum; raises `ConicError` where there is none."""
        import clarabel
        from scipy import sparse

        residuals = sum(len(b) for _, b in self.squares)
        blocks, right, cones = self._stack_rows(residuals, clarabel)
        P = sparse.block_diag([sparse.csc_matrix((self.size, self.size)), sparse.eye(residuals)], format="csc")
        q = np.concatenate([self.cost, np.zeros(residuals)])
        for k, regularisation, tolerance in product(RESIDUAL_DIVISORS, REGULARISATIONS, SOLVER_TOLERANCES):
            settings = _build_settings(clarabel, tolerance, regularisation)
            # Variables r / k for the residuals r = A x - b, and the whole cost divided by k^2.
            columns = sparse.diags(np.repeat([1.0, k], [self.size, residuals]))
            found = clarabel.DefaultSolver(P, q / k**2, (blocks @ columns).tocsc(), right, cones, settings).solve()
            if str(found.status) in ACCEPTED_STATUSES:
                break
            if str(found.status) in INFEASIBLE_STATUSES and tolerance == SOLVER_TOLERANCES[-1]:
                raise InfeasibleProgramError("no values satisfy all rows of the conic program")
        else:
            raise ConicError(f"the conic program was not solved: {found.status}")
        duals = np.split(k**2 * np.array(found.z), np.cumsum([residuals, *(rows.count for rows in self.rows)])[:-1])
        return Minimum(
            np.array(found.x)[: self.size],
            k**2 * float(found.obj_val),
            tuple(duals[1:]),
            str(found.status),
            float(found.solve_time),
            int(found.iterations),
        )

    def find_least_values(self, costs: Array, ball: int, radii: Array) -> Array:
        """(k,) the least of costs[k].x, with radii[k] added to the first row of the group `ball` of rows.

        One solver for all, of a program without squares: costs and one number change. NaN where it finds no answer.
        """
        import clarabel
        from scipy import sparse

        A, b, cones = self._stack_rows(0, clarabel)
        settings = _build_settings(clarabel, COARSE_TOLERANCE, REGULARISATIONS[0])
        settings.presolve_enable = False  # what is presolved cannot be updated
        solver = clarabel.DefaultSolver(sparse.csc_matrix((self.size, self.size)), self.cost, A, b, cones, settings)
        first, found = sum(rows.count for rows in self.rows[:ball]), []
        for cost, radius in zip(costs, radii, strict=True):
            moved = b.copy()
            moved[first] += radius
            solver.update(q=cost, b=moved)
            solved = solver.solve()
            found.append(float(cost @ np.array(solved.x)) if str(solved.status) in ACCEPTED_STATUSES else np.nan)
        return np.array(found)

    def _stack_rows(self, residuals: int, clarabel: Any) -> tuple[Any, Array, list[Any]]:
        """Clarabel's A, b and cones: A x + s = b with s in the cones; the residuals' equations come first."""
        from scipy import sparse

        width = self.size + residuals
        fit = [_widen_matrix(A, width) for A, _ in self.squares]
        start = 0
        for block, (_, b) in zip(fit, self.squares, strict=True):
            block[:, self.size + start : self.size + start + len(b)] = -np.eye(len(b))
            start += len(b)
        below = [-_widen_matrix(rows.matrix, width) for rows in self.rows]
        cones = [clarabel.ZeroConeT(residuals)] if residuals else []
        for rows in self.rows:
            cones += _build_cones(rows, clarabel)
        right = np.concatenate([*(b for _, b in self.squares), *(rows.offset for rows in self.rows)])
        return sparse.csc_matrix(np.vstack([*fit, *below])), right, cones


def _widen_matrix(matrix: Array, width: int) -> Array:
    return np.hstack([matrix, np.zeros((len(matrix), width - matrix.shape[1]))])


def _build_cones(rows: ConeRows, clarabel: Any) -> list[Any]:
    if rows.kind == "zero":
        return [clarabel.ZeroConeT(rows.count)]
    if rows.kind == "nonnegative":
        return [clarabel.NonnegativeConeT(rows.count)]
    if rows.kind == "second order":
        return [clarabel.SecondOrderConeT(rows.count)]
    if rows.kind == "semidefinite":
        return [clarabel.PSDTriangleConeT(rows.order)]
    return [clarabel.ExponentialConeT() for _ in range(rows.count // 3)]


def _build_settings(clarabel: Any, tolerance: float, regularisation: float) -> Any:
    settings = clarabel.DefaultSettings()
    settings.static_regularization_constant = regularisation
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    settings.max_iter = 200
    return settings


def triangle(matrices: Sequence[Array] | Array) -> Array:
    """(order (order + 1) / 2, k): columns are the scaled upper triangles of k symmetric matrices."""
    stack = np.asarray(matrices)
    order = stack.shape[-1]
    columns, rows = np.tril_indices(order)  # the upper triangle, column by column
    scales = np.where(rows == columns, 1.0, np.sqrt(2.0))
    return np.asarray((stack[:, rows, columns] * scales).T)


def matrix_of_triangle(entries: Array) -> Array:
    """The symmetric matrix of one scaled upper triangle: the inverse of `triangle`."""
    order = int(np.sqrt(2 * len(entries)))
    columns, rows = np.tril_indices(order)
    matrix = np.zeros((order, order))
    matrix[rows, columns] = matrix[columns, rows] = entries / np.where(rows == columns, 1.0, np.sqrt(2.0))
    return matrix
