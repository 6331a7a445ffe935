"""Directions of the parameters that data tell: the complement of those that no row sees."""

from __future__ import annotations

import numpy as np

from mindyn.algebra.values import Array
from mindyn.regression.information import null_space


def told_directions(R: Array) -> Array:
    """(p, k) with beta = told @ gamma: orthonormal for parameters in units of 1 / the length of their column of R."""
    scales = np.linalg.norm(R, axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    hidden = null_space(R)
    seen = np.linalg.svd(hidden)[0][:, hidden.shape[1] :] if hidden.shape[1] else np.eye(R.shape[1])
    return np.asarray(seen / scales[:, None])
