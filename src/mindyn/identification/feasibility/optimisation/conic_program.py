"""Conic programs for Clarabel: a quadratic cost and linear rows in cones.

Clarabel is called without a modelling layer: the programs have a few hundred rows of a fixed structure, and for a fit
of 7 joints a modelling layer takes longer to set up the program than the solver takes to solve it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, Literal

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, MindynError

ConeKind = Literal["zero", "nonnegative", "second order", "semidefinite", "exponential"]
SOLVER_TOLERANCES: Final = (1e-9, 1e-7)
"""Relative tolerances of gap and feasibility, which are tried one after the other; the default of Clarabel is 1e-8."""
COARSE_TOLERANCE: Final = 1e-6
"""Tolerance for values that are used with three digits."""
REGULARISATIONS: Final = (1e-8, 1e-6, 1e-10)
"""Regularisations of the factorisation, tried in turn if Clarabel finds no solution; the first is its default."""
DIAGONAL_PLACES: Final = [0, 2, 5, 9]
"""Indices of the diagonal of a 4 x 4 matrix in its upper triangle, column by column."""
RESIDUAL_DIVISORS: Final = (1.0, 1e2, 1e3)
"""Divisors of the residuals, which are tried one after the other: with almost no noise, weighted residuals are so large
that factorisations fail.
"""
ACCEPTED_STATUSES: Final = ("Solved", "AlmostSolved")
INFEASIBLE_STATUSES: Final = ("PrimalInfeasible", "AlmostPrimalInfeasible")


class ConicError(MindynError):
    """Error if a conic program has no solution, or if no solution was found."""

    default_code = Code.NOT_CONVERGED


class InfeasibleProgramError(ConicError):
    """Error if no values satisfy all conditions of a conic program."""

    default_code = Code.DISAGREEMENT


@dataclass(frozen=True, slots=True, eq=False)
class ConeRows:
    """Rows with matrix @ x + offset in a cone, by `kind`:

    "zero", "nonnegative"  each row is zero, or not negative
    "second order"         the first row is at least the norm of the others
    "semidefinite"         rows are the upper triangle, column by column, off-diagonals times sqrt(2), of a matrix of
                           `order`
    "exponential"          three rows (a, b, c) each: b exp(a / b) <= c
    """

    kind: ConeKind
    matrix: Array
    offset: Array
    order: int = 0

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.offset)

    def in_units(self, units: Array) -> ConeRows:
        """Return the rows as conditions on v, x = units * v."""
        return replace(self, matrix=self.matrix * units)

    def with_margin(self, variable: int, size: int, unit: float = 1.0) -> ConeRows:
        """Return the rows as conditions on `size` variables: eigenvalues or values must be at least `unit` times one
        variable.
        """
        matrix = _widen_matrix(self.matrix, size)
        matrix[DIAGONAL_PLACES if self.kind == "semidefinite" else slice(None), variable] = -unit
        return replace(self, matrix=matrix)

    def from_start(self, start: Array) -> ConeRows:
        """Return the rows as conditions on the step from `start`."""
        return replace(self, offset=self.offset + self.matrix @ start)


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Minimum of a program: x and its cost."""

    x: Array
    cost: float


@dataclass(slots=True, eq=False)
class ConicProgram:
    """Program that minimises 1/2 |A x - b|^2 + c.x - weight log det S subject to rows in cones.

    Each S is the matrix of semidefinite rows, with its own weight. Each residual is an additional variable.
    """

    size: int
    cost: Array = field(init=False)
    squares: list[tuple[Array, Array]] = field(default_factory=list)
    rows: list[ConeRows] = field(default_factory=list)
    logarithms: list[tuple[ConeRows, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cost = np.zeros(self.size)

    def add_variables(self, count: int) -> slice:
        """Add variables after x; rows and squares given for fewer variables remain valid."""
        start, self.size = self.size, self.size + count
        self.cost = np.concatenate([self.cost, np.zeros(count)])
        return slice(start, self.size)

    def add_squares(self, A: Array, b: Array) -> None:
        """Add 1/2 |A x - b|^2."""
        self.squares.append((A, b))

    def add_rows(self, *rows: ConeRows) -> None:
        """Add rows in cones."""
        self.rows.extend(rows)

    def add_logarithm(self, rows: ConeRows, weight: float) -> None:
        """Add -weight log det S, where S is the matrix of semidefinite rows."""
        self.logarithms.append((rows, weight))

    def solve(self) -> Minimum:
        """Return the minimum. Raise `ConicError` if no minimum is found."""
        if self.logarithms:
            minimum = self._with_exponential_cones().solve()
            return replace(minimum, x=minimum.x[: self.size])
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
            solution = clarabel.DefaultSolver(P, q / k**2, (blocks @ columns).tocsc(), right, cones, settings).solve()
            if str(solution.status) in ACCEPTED_STATUSES:
                break
            is_infeasible = str(solution.status) in INFEASIBLE_STATUSES and tolerance == SOLVER_TOLERANCES[-1]
            if is_infeasible and any(rows.offset.any() for rows in self.rows):  # without offsets, x = 0 is feasible
                raise InfeasibleProgramError("no values satisfy all rows of the conic program")
        else:
            raise ConicError(f"the conic program was not solved: {solution.status}", subject=solution.status)
        return Minimum(np.array(solution.x)[: self.size], k**2 * float(solution.obj_val))

    def _with_exponential_cones(self) -> ConicProgram:
        """Return the program with additional variables for the logarithms.

        [[S, Z], [Z^T, diag Z]] >= 0 with Z lower triangular makes det S >= prod Z_kk, and the logarithms of Z_kk are
        variables in exponential cones [Ben-Tal & Nemirovski 2001].
        """
        program = ConicProgram(self.size, list(self.squares), list(self.rows))
        program.cost = self.cost.copy()
        for rows, weight in self.logarithms:
            n = rows.order
            places = list(zip(*np.tril_indices(n), strict=True))
            factor, logs = program.add_variables(len(places)), program.add_variables(n)
            program.cost[logs] -= weight
            corners = np.zeros((len(places), 2 * n, 2 * n))
            for k, (row, column) in enumerate(places):
                corners[k, row, n + column] = corners[k, n + column, row] = 1.0
                corners[k, n + row, n + row] = float(row == column)
            matrix = np.zeros((n * (2 * n + 1), program.size))
            matrix[: rows.count, : self.size] = rows.matrix  # the upper triangle begins with that of S
            matrix[:, factor] = triangle(corners)
            offset = np.concatenate([rows.offset, np.zeros(len(matrix) - rows.count)])
            program.add_rows(ConeRows("semidefinite", matrix, offset, 2 * n))
            exponentials = np.zeros((3 * n, program.size))
            exponentials[range(0, 3 * n, 3), range(logs.start, logs.stop)] = 1.0
            diagonal = [factor.start + k for k, (row, column) in enumerate(places) if row == column]
            exponentials[range(2, 3 * n, 3), diagonal] = 1.0
            program.add_rows(ConeRows("exponential", exponentials, np.tile([0.0, 1.0, 0.0], n)))
        return program

    def _stack_rows(self, residuals: int, clarabel: Any) -> tuple[Any, Array, list[Any]]:
        """Return A, b and cones for Clarabel, A x + s = b with s in the cones; residual equations come first."""
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
    if rows.kind == "exponential":
        return [clarabel.ExponentialConeT() for _ in range(rows.count // 3)]
    if rows.kind == "semidefinite":
        return [clarabel.PSDTriangleConeT(rows.order)]
    names = {"zero": "ZeroConeT", "nonnegative": "NonnegativeConeT", "second order": "SecondOrderConeT"}
    return [getattr(clarabel, names[rows.kind])(rows.count)]


def _build_settings(clarabel: Any, tolerance: float, regularisation: float) -> Any:
    settings = clarabel.DefaultSettings()
    settings.static_regularization_constant = regularisation
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    settings.max_iter = 200
    return settings


def triangle(matrices: Sequence[Array] | Array) -> Array:
    """Return the scaled upper triangles of k symmetric matrices as columns (order (order + 1) / 2, k)."""
    stack = np.asarray(matrices)
    order = stack.shape[-1]
    columns, rows = np.tril_indices(order)  # the upper triangle, column by column
    scales = np.where(rows == columns, 1.0, np.sqrt(2.0))
    return np.asarray((stack[:, rows, columns] * scales).T)


def matrix_of_triangle(entries: Array) -> Array:
    """Return the symmetric matrix of each scaled upper triangle (..., k), the inverse of `triangle`."""
    order = int(np.sqrt(2 * entries.shape[-1]))
    columns, rows = np.tril_indices(order)
    matrix = np.zeros((*entries.shape[:-1], order, order))
    scaled = entries / np.where(rows == columns, 1.0, np.sqrt(2.0))
    matrix[..., rows, columns] = matrix[..., columns, rows] = scaled
    return matrix
