"""Omega = [wd] + [w][w], which all recursions of the papers share."""

from __future__ import annotations

from mindyn.equations.triples import Matrix, Symmetric, Triple


def omega(w: Triple, wd: Triple) -> tuple[Matrix, Symmetric]:
    """Return [wd] + [w][w] in 6 multiplications and 9 additions, and its products w w^T.

    a_P = a + Omega r for a point r of the body [Lin 1995, eq. 59; Angeles et al. 1988, eq. 53].
    """
    xx, yy, zz, xy, xz, yz = w.x * w.x, w.y * w.y, w.z * w.z, w.x * w.y, w.x * w.z, w.y * w.z
    turn = Matrix(
        Triple(-(yy + zz), xy - wd.z, xz + wd.y),
        Triple(xy + wd.z, -(xx + zz), yz - wd.x),
        Triple(xz - wd.y, yz + wd.x, -(xx + yy)),
    )
    return turn, Symmetric(xx, yy, zz, xy, xz, yz)
