"""Interior-point method that solves many programs with equal conditions and different data at the same time.

minimise 1/2 |A v - b|^2 + c.v - sum_i weight_i log det S_i
over v with S_i = F_i v + f_i >= 0, G v + h >= 0 and, if there is a ball, |U v + d| <= radius

S_i are 4 x 4 matrices (pseudo-inertias of single links), so that a Newton step takes one Cholesky factorisation of the
size of v. Each condition has a multiplier Z_i with S_i Z_i = t I, where t falls to zero for a condition, and to its
weight for a logarithm. The direction is that of Helmberg et al. [1996], with the predictor and corrector of Mehrotra
[1992].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.processes.workers import share_tasks
from mindyn.identification.feasibility.optimisation.conic_program import (
    SOLVER_TOLERANCES,
    ConeRows,
    ConicProgram,
    matrix_of_triangle,
)

MAX_ITERATIONS: Final = 40
"""Largest number of iterations; programs of fits take 9 to 22."""
MIN_START: Final = 0.1
"""Smallest eigenvalue of matrices, and smallest value of rows, at the start."""
MIN_RATIO: Final = 1e-3
"""If the ratio of the eigenvalues of a matrix at the start is above this, the matrix is its own unit."""
STEP_FRACTION: Final = 0.99
"""Fraction of the step to the boundary."""
STEPS: Final = np.array([1.0, 0.95, 0.9, 0.8]), np.array([0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.03, 0.01])
"""Lengths of steps that are tried, the longest first; the lengths of a group are tried together."""
RIDGE: Final = 1e-13
"""Value that is added to the diagonal of the scaled Newton matrix, so that values do not change in directions without
cost.
"""
ORDER: Final = 4
BATCH_NUMBERS: Final = 2**18
"""Number of entries of all Newton matrices of programs that are solved together, chosen so that they stay in the cache.
"""
MIN_BATCH: Final = 16
"""Smallest number of programs that are solved together; with fewer, the interpreter takes longer than the algebra."""


class _Point(NamedTuple):
    """Values v (f, p), and S, Z (f, k, 4, 4) and s, z (f, r) of the conditions of f programs."""

    v: Array
    S: Array
    Z: Array
    s: Array
    z: Array

    def moved(self, direction: _Point, step: Array) -> _Point:
        """Return the point after a step (f,)."""
        pairs = zip(self, direction, strict=True)
        return _Point(*(x + step.reshape(-1, *(1,) * (x.ndim - 1)) * dx for x, dx in pairs))

    def longest_step(self, direction: _Point) -> Array:
        """Return for each program (f,) the longest of `STEPS` that stays inside the conditions."""
        closing = [-(dx / x).min(axis=1, initial=0.0) for x, dx in ((self.s, direction.s), (self.z, direction.z))]
        left, lengths = np.arange(len(self.v)), np.zeros(len(self.v))
        # Entries first: operations on all matrices take a third of the time of those on one 4 x 4 matrix after another.
        X, dX = (
            np.ascontiguousarray(np.moveaxis(np.concatenate([point.S, point.Z], axis=1), (-2, -1), (0, 1)))
            for point in (self, direction)
        )
        for steps in STEPS:
            far = steps / STEP_FRACTION
            is_inside = _is_positive(X[:, :, None] + far[:, None, None] * dX[:, :, None]).all(axis=-1)
            is_inside &= far[:, None] * np.maximum(*closing)[left] < 1.0
            moves = is_inside.any(axis=0)
            lengths[left[moves]] = steps[is_inside.argmax(axis=0)[moves]]
            left, X, dX = left[~moves], X[:, :, ~moves], dX[:, :, ~moves]
            if not len(left):
                break
        return lengths

    def select(self, chosen: NDArray[np.bool_]) -> _Point:
        """Return the point of some of the programs."""
        return _Point(*(array[chosen] for array in self))


def _is_positive(X: Array) -> NDArray[np.bool_]:
    """Return for each matrix of (4, 4, ...) whether it is positive definite, from the pivots of its elimination."""
    is_positive = np.ones(X.shape[2:], dtype=np.bool_)
    for _ in range(ORDER):
        pivot, column = X[0, 0], X[1:, 0]
        is_positive &= pivot > 0
        X = X[1:, 1:] - column[:, None] * (column / np.where(pivot > 0, pivot, 1.0))
    return is_positive


def _symmetric(X: Array) -> Array:
    return np.asarray((X + np.swapaxes(X, -1, -2)) / 2)


class _Batch(NamedTuple):
    """Programs with the same conditions.

    numbers     (f,): numbers of the programs among all programs
    A, b, cost  (f, m, p), (f, m), (f, p): data of each
    gram, sizes (f, p, p), (f,): A^T A, and the largest of A^T b and the cost
    weights     (f, k): weights of logarithms, 0 for conditions
    radii       (f,): radii of the ball
    free        (f, p): 1 for values that may change, 0 for those fixed at zero
    G, h        (r, p), (f, r): rows that must not be negative
    products    (r, s): products of two entries of each row, with their positions (2, s) in the Newton matrix
    ball        (u, p + 1): [U | d]; no rows if there is no ball
    metric      (p, p): U^T U
    F, constant (k, 10, 16), (k, 16): S = F v + constant, for each block of columns
    columns     (k, 10): indices of the entries of v, in the order of the first index
    """

    numbers: NDArray[np.intp]
    A: Array
    b: Array
    cost: Array
    gram: Array
    sizes: Array
    weights: Array
    radii: Array
    free: Array
    h: Array
    G: Array
    products: tuple[Array, NDArray[np.intp]]
    ball: Array
    metric: Array
    F: Array
    constant: Array
    columns: NDArray[np.intp]

    def select(self, chosen: NDArray[np.bool_]) -> _Batch:
        """Return some of the programs."""
        shared = self._fields.index("G")
        return _Batch(*(array[chosen] for array in self[:shared]), *self[shared:])  # type: ignore[arg-type]

    def matrices(self, v: Array) -> Array:
        """Return F v (f, k, 4, 4)."""
        return (v[:, self.columns][:, :, None] @ self.F).reshape(len(v), len(self.F), ORDER, ORDER)

    def rows_at(self, v: Array) -> tuple[Array, Array]:
        """Return the values (f, r) of rows that must not be negative, and the gradient (f, p) of the ball.

        The last row is the ball, 1 - |U v + d|^2 / radius^2.
        """
        values = (self.free * v) @ self.G.T + self.h
        if not len(self.ball):
            return values, v[:, :0]
        U, squares = self.ball[:, :-1], self.radii[:, None] ** 2
        distances = v @ U.T + self.ball[:, -1]
        values = np.column_stack([values, 1 - (distances**2 / squares).sum(axis=1)])
        return values, -2 * distances / squares @ U

    def along(self, v: Array, gradient: Array) -> Array:
        """Return the change (f, r) of the rows for a step v; the ball changes by its gradient."""
        change = (self.free * v) @ self.G.T
        return np.column_stack([change, (gradient * v).sum(axis=1)]) if len(self.ball) else change

    def adjoint(self, Z: Array, gradient: Array, z: Array) -> Array:
        """Return F^T Z + gradients^T z (f, p)."""
        total = self.free * (z[:, : len(self.G)] @ self.G)
        if len(self.ball):
            total += z[:, -1:] * gradient
        for first, part in zip(self.columns[:, 0], np.moveaxis(self._products(Z), 1, 0), strict=True):
            total[:, first : first + part.shape[1]] += part
        return np.asarray(total)

    def _products(self, Z: Array) -> Array:
        return np.asarray((self.F @ Z.reshape(len(Z), len(self.F), ORDER**2, 1))[..., 0])

    def add_curvature(self, M: Array, S_inverse: Array, Z: Array, gradient: Array, s: Array, z: Array) -> None:
        """Add the second derivative of the conditions to M (f, p, p): tr(F_a S^-1 F_b Z), and G^T (z / s) G."""
        products, (row, column) = self.products
        M[:, row, column] += (z / s)[:, : len(self.G)] @ products * self.free[:, row] * self.free[:, column]
        if len(self.ball):
            last = z[:, -1]
            steep = (last / s[:, -1])[:, None] * gradient
            for matrix, size, left, right in zip(M, 2 * last / self.radii**2, steep, gradient, strict=True):
                matrix += size * self.metric  # one matrix at a time stays in the cache
                matrix += np.outer(left, right)
        # tr(F_a S^-1 F_b Z) = F_a . (S^-1 x Z) F_b for the entries of F row by row
        outer = S_inverse[..., :, None, :, None] * Z[..., None, :, None, :]
        outer = outer.reshape(*Z.shape[:2], ORDER**2, ORDER**2)
        blocks = _symmetric((self.F @ outer) @ np.swapaxes(self.F, -1, -2))
        for k, first in enumerate(self.columns[:, 0]):
            own = slice(first, first + blocks.shape[-1])
            M[:, own, own] += blocks[:, k]

    def start(self, v: Array) -> _Point:
        """Return a point inside, near v (p,)."""
        all_v = np.repeat(v[None], len(self.A), axis=0)
        values, vectors = np.linalg.eigh(self.matrices(all_v[:1]) + self.constant.reshape(-1, ORDER, ORDER))
        S = (vectors * np.maximum(values, MIN_START)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        S = np.repeat(S, len(all_v), axis=0)
        s = np.maximum(self.rows_at(all_v)[0], MIN_START)
        Z = np.maximum(self.weights, 1.0)[..., None, None] * np.linalg.inv(S)
        return _Point(all_v, S, Z, s, 1 / s)

    def solve(self, v: Array, tolerance: float) -> tuple[Array, NDArray[np.bool_]]:
        """Return the minimisers (f, p) from a start v (p,), and for each program whether a minimiser was found."""
        minima, is_found = np.zeros_like(self.cost), np.zeros(len(self.A), dtype=np.bool_)
        batch, point = self, self.start(v)
        for _ in range(MAX_ITERATIONS):
            remaining, is_done = batch._residuals(point, tolerance)
            minima[batch.numbers[is_done]], is_found[batch.numbers[is_done]] = point.v[is_done], True
            if is_done.all():
                break
            if is_done.any():
                batch, point = batch.select(~is_done), point.select(~is_done)
                remaining = tuple(array[~is_done] for array in remaining)
            try:
                point, is_sound = batch._step(point, *remaining)
            except np.linalg.LinAlgError:  # a matrix is singular to rounding: the other programs go on
                is_sound = np.asarray(_is_positive(np.moveaxis(point.S, (-2, -1), (0, 1))).all(axis=1))
                if is_sound.all():
                    break
            if not is_sound.all():
                batch, point = batch.select(is_sound), point.select(is_sound)
        return minima, is_found

    def _residuals(self, point: _Point, tolerance: float) -> tuple[tuple[Array, ...], NDArray[np.bool_]]:
        """Return the residuals of conditions, rows and dual equations, the gap, the gradient of the ball, and which
        programs converged.
        """
        conditions = self.matrices(point.v) + self.constant.reshape(-1, ORDER, ORDER) - point.S
        values, outward = self.rows_at(point.v)
        rows = values - point.s
        error = (self.A @ point.v[..., None])[..., 0] - self.b
        gradient = (error[:, None] @ self.A)[:, 0] + self.cost
        dual = gradient - self.adjoint(point.Z, outward, point.z)
        products = np.einsum("fkij,fkij->fk", point.S, point.Z)
        gap = np.abs(products - ORDER * self.weights).sum(axis=1) + (point.s * point.z).sum(axis=1)
        is_done = gap < tolerance * np.maximum(1.0, (error**2).sum(axis=1) / 2)
        largest = np.maximum(np.abs(conditions).max(axis=(1, 2, 3), initial=0.0), np.abs(rows).max(axis=1, initial=0.0))
        is_done &= largest < tolerance * (1.0 + np.abs(point.v).max(axis=1))
        is_done &= np.abs(dual).max(axis=1) < tolerance * (1.0 + self.sizes)
        return (conditions, rows, dual, gap, outward), is_done

    def _step(
        self, point: _Point, conditions: Array, rows: Array, dual: Array, gap: Array, outward: Array
    ) -> tuple[_Point, NDArray[np.bool_]]:
        """Return the next points, and which of the optimisation programs can continue.

        A program can continue if its Newton matrix was factored, and if its step is finite and longer than zero.
        """
        from scipy.linalg.lapack import dpotrf, dpotrs

        S, Z, s, z = point.S, point.Z, point.s, point.z
        inverse: Array = np.asarray(np.linalg.inv(S), dtype=np.float64)
        M = self.gram.copy()
        self.add_curvature(M, inverse, Z, outward, s, z)
        scales = 1 / np.sqrt(np.maximum(np.einsum("fii->fi", M), 1e-300))
        factors = []
        for matrix, scale in zip(M, scales, strict=True):
            matrix *= scale[:, None]
            matrix *= scale
            matrix.flat[:: len(scale) + 1] += RIDGE
            factors.append(dpotrf(matrix.T))

        def direction(targets: Array, level: Array, more_Z: Array | float, more_z: Array | float) -> _Point:
            """Return the Newton step to S Z = targets (f, k) and s z = level (f, 1)."""
            fixed_Z, fixed_z = targets[..., None, None] * inverse - Z - more_Z, level / s - z - more_z
            change_Z = fixed_Z - _symmetric(inverse @ conditions @ Z)
            right = (self.adjoint(change_Z, outward, fixed_z - z * rows / s) - dual) * scales
            v = np.array([dpotrs(L, x)[0] for (L, _), x in zip(factors, right, strict=True)])
            error = right - (M @ v[..., None])[..., 0]
            v += np.array([dpotrs(L, x)[0] for (L, _), x in zip(factors, error, strict=True)])
            v *= scales
            dS, ds = self.matrices(v) + conditions, self.along(v, outward) + rows
            return _Point(v, dS, fixed_Z - _symmetric(inverse @ dS @ Z), ds, fixed_z - z * ds / s)

        predictor = direction(self.weights, np.zeros((len(S), 1)), 0.0, 0.0)
        length = point.longest_step(predictor)
        level = ((1 - length) ** 3 * gap / (ORDER * Z.shape[1] + z.shape[1]))[:, None]
        corrector = direction(
            np.maximum(self.weights, level),
            level,
            _symmetric(inverse @ predictor.S @ predictor.Z),
            predictor.s * predictor.z / s,
        )
        length = point.longest_step(corrector)
        following = point.moved(corrector, length)
        is_sound = np.array([info == 0 for _, info in factors]) & np.isfinite(following.v).all(axis=1) & (length > 0)
        return following, is_sound


def minimise_all(
    programs: Sequence[ConicProgram], start: Array, tolerance: float = SOLVER_TOLERANCES[0]
) -> list[Array | None]:
    """Return the minimiser (size,) of each program; None if it was not found.

    Parameters
    ----------
    programs : sequence of ConicProgram
        Programs of one size with the same conditions, apart from zero rows; data, costs, weights, and the radius of a
        ball, second-order rows of which the first is constant, may differ.
    start : numpy.ndarray
        Values (size,) to start from, such as those of a prior; they need not satisfy the conditions.
    tolerance : float
        Duality gap relative to the cost, violation of conditions relative to the values, and residual of the dual
        equations relative to data and cost, or relative to 1 if that is larger.
    """
    first = programs[0]
    groups = [rows for rows in first.rows if rows.kind == "semidefinite"] + [rows for rows, _ in first.logarithms]
    balls = [rows for rows in first.rows if rows.kind == "second order"]
    is_known = all(rows.kind != "exponential" for rows in first.rows) and all(rows.order == ORDER for rows in groups)
    if not groups or not is_known or len(balls) > 1 or any(rows.matrix[0].any() for rows in balls):
        return [None] * len(programs)
    fixed = [_fixed_columns(program) for program in programs]
    if any(numbers is None for numbers in fixed):
        return [None] * len(programs)
    # Two batches also on one core: the rounding of products depends on the number of programs in them.
    at_once = min(max(MIN_BATCH, BATCH_NUMBERS // first.size**2), -(-len(programs) // 2))
    batches = [slice(k, k + at_once) for k in range(0, len(programs), at_once)]
    tasks = [(programs[taken], groups, np.array(fixed[taken]), start, tolerance) for taken in batches]
    return [v for minima in share_tasks(_solve_batch, tasks) for v in minima]


def _solve_batch(
    programs: Sequence[ConicProgram],
    groups: Sequence[ConeRows],
    fixed: NDArray[np.bool_],
    start: Array,
    tolerance: float,
) -> list[Array | None]:
    batch = _build_batch(programs, groups, fixed, start)
    with np.errstate(all="ignore"):  # programs that diverge are given up
        values, is_found = batch.solve(start, tolerance)
    return [v if found else None for v, found in zip(values, is_found, strict=True)]


def _fixed_columns(program: ConicProgram) -> NDArray[np.bool_] | None:
    """Return for each value (size,) whether zero rows fix it at zero; None if zero rows have another effect."""
    fixed = np.zeros(program.size, dtype=np.bool_)
    for rows in program.rows:
        if rows.kind == "zero":
            if rows.offset.any() or (np.count_nonzero(rows.matrix, axis=1) != 1).any():
                return None
            fixed |= rows.matrix.any(axis=0)
    return fixed


def _build_batch(
    programs: Sequence[ConicProgram], groups: Sequence[ConeRows], fixed: NDArray[np.bool_], start: Array
) -> _Batch:
    first, free = programs[0], ~fixed
    nothing = np.zeros((0, first.size))
    A = np.array([np.vstack([nothing, *(A for A, _ in program.squares)]) for program in programs]) * free[:, None]
    # A fixed value is a further unknown that only its own square determines.
    A = np.concatenate([A, np.eye(first.size)[fixed.any(axis=0)] * fixed[:, None]], axis=1)
    b = np.zeros(A.shape[:2])
    for k, program in enumerate(programs):
        right = np.concatenate([np.zeros(0), *(b for _, b in program.squares)])
        b[k, : len(right)] = right
    linear = [rows for rows in first.rows if rows.kind == "nonnegative"]
    G = np.vstack([nothing, *(rows.matrix for rows in linear)])
    h = np.concatenate([np.zeros(0), *(rows.offset for rows in linear)])
    h = np.where(free.astype(np.float64) @ np.abs(G).T > 0, h, 1.0)  # a row of fixed values only is satisfied
    pairs = np.array(np.nonzero((G != 0).T.astype(np.float64) @ (G != 0)))
    columns = np.array([_columns_of(rows) for rows in groups])
    F, constant = [], []
    for rows, numbers in zip(groups, columns, strict=True):
        # In units of the matrix at the start, if that is inside, all of its eigenvalues are one.
        matrix = matrix_of_triangle(rows.matrix @ start + rows.offset)
        values, vectors = np.linalg.eigh(matrix)
        turn = (vectors / np.sqrt(values)).T if values[0] > MIN_RATIO * values[-1] else np.eye(ORDER)
        parts = matrix_of_triangle(np.column_stack([rows.matrix[:, numbers], rows.offset]).T)
        parts = (turn @ parts @ turn.T).reshape(len(parts), -1)
        F.append(parts[:-1])
        constant.append(parts[-1])
    conditions = len(groups) - len(first.logarithms)
    weights = np.array([[0.0] * conditions + [weight for _, weight in program.logarithms] for program in programs])
    cost = np.array([program.cost for program in programs]) * free
    ball, radii = np.zeros((0, first.size + 1)), np.ones(len(programs))
    for k, program in enumerate(programs):
        for rows in program.rows:
            if rows.kind == "second order":
                ball, radii[k] = np.column_stack([rows.matrix, rows.offset])[1:], rows.offset[0]
    gram = np.swapaxes(A, -1, -2) @ A
    sizes = np.maximum(np.abs((b[:, None] @ A)[:, 0]), np.abs(cost)).max(axis=1)
    data = A, b, cost, gram, sizes, weights, radii, free.astype(np.float64), h
    products = G[:, pairs[0]] * G[:, pairs[1]], pairs
    return _Batch(
        np.arange(len(programs)),
        *data,
        G,
        products,
        ball,
        ball[:, :-1].T @ ball[:, :-1],
        np.array(F),
        np.array(constant),
        columns,
    )


def _columns_of(rows: ConeRows) -> NDArray[np.intp]:
    """Return the ten columns on which a matrix depends, from the first nonzero one on."""
    first = int(np.flatnonzero(rows.matrix.any(axis=0))[0])
    return np.arange(first, first + rows.count)
