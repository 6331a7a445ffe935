"""`Triangle`: the R factor of rows that come block by block; A^T A = R^T R without ever forming A^T A."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.lapack import dgeqrf

from mindyn.algebra.values import Array


class Triangle:
    """R (k, k) of the QR factorisation of all rows appended so far; memory for one block of rows alone."""

    def __init__(self, width: int, block_rows: int) -> None:
        self.width = width
        self.rows = 0
        self._work = np.zeros((width + block_rows, width), order="F")
        self.R = np.zeros((width, width))

    def append(self, parts: Sequence[Array]) -> None:
        """Appends rows, given as arrays (N, .) side by side, N at most the block's rows."""
        count, k = len(parts[0]), self.width
        work = self._work[: k + count] if count + k == len(self._work) else np.zeros((k + count, k), order="F")
        work[:k] = self.R
        column = 0
        for part in parts:
            work[k:, column : column + part.shape[1]] = part
            column += part.shape[1]
        factored, _, _, info = dgeqrf(work, overwrite_a=1)
        assert info == 0, f"dgeqrf: argument {-info}"
        self.R = np.triu(factored[:k])
        self.rows += count


def triangle_of(rows: Array) -> Array:
    """R (k, k) of rows (N, k), rows of zeros added where N < k."""
    k = rows.shape[1]
    R = np.zeros((k, k))
    found = np.linalg.qr(rows, mode="r")
    R[: len(found)] = found
    return R
