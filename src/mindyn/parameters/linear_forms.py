"""Mass, first moment and inertia tensor as linear forms over the standard parameters of all links.

A quantity x of shape (...) that is linear in phi (p = 10 n) is stored as an array (..., p): x = form @ phi. The
recursions of the closed forms use such arrays, so that their result is the matrix K of a base set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mindyn.foundation.algebra.inertia import phi_map, point_tensor, tensor_from_entries
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.notation import PARAMETERS_PER_LINK


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of order 0, 1 and 2 of a body about a frame's origin, in its axes, as linear forms.

    mass    (p,) m
    first   (3, p) m c
    tensor  (3, 3, p) J
    """

    mass: Array
    first: Array
    tensor: Array

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.mass + other.mass, self.first + other.first, self.tensor + other.tensor)


def zero_moments(size: int) -> Moments:
    """Return linear forms over `size` parameters that are all zero."""
    return Moments(np.zeros(size), np.zeros((3, size)), np.zeros((3, 3, size)))


def link_moments(links: Sequence[Pose]) -> list[Moments]:
    """Return the moments of every link in a frame in which `links[i]` is the pose of its source link frame.

    The moments are linear forms over the parameters in the source frames: phi_frame = phi_map(links[i]) phi_i.
    """
    bodies = []
    for i, X in enumerate(links):
        forms = np.zeros((PARAMETERS_PER_LINK, PARAMETERS_PER_LINK * len(links)))
        forms[:, PARAMETERS_PER_LINK * i : PARAMETERS_PER_LINK * (i + 1)] = phi_map(X)
        bodies.append(Moments(forms[0], forms[1:4], tensor_from_entries(forms[4:])))
    return bodies


def outer(a: Array, form: Array) -> Array:
    """Return the outer product of a constant array and linear forms: (*a.shape, *form.shape)."""
    return np.multiply.outer(a, form)


def rotate_tensor(R: Array, tensor: Array) -> Array:
    """Return R J R^T of a tensor of forms (3, 3, p)."""
    return np.asarray(np.einsum("ij,jkp,lk->ilp", R, tensor, R))


def shift_tensor(s: Array, vector: Array) -> Array:
    """Return 2 (s.v) E - s v^T - v s^T = -[s][v] - [v][s] for a constant vector s and a vector v of forms (3, p)."""
    product = np.einsum("i,jp->ijp", s, vector)
    return np.asarray(2 * outer(np.eye(3), s @ vector) - product - product.swapaxes(0, 1))


def point_mass_tensor(s: Array, mass: Array) -> Array:
    """Return m ((s.s) E - s s^T) = -m [s][s]: the tensor of a mass form (p,) at s."""
    return outer(point_tensor(s), mass)


def rotation_invariant_part(body: Moments) -> Moments:
    """Return the moments that a rotation about z does not change: the mass, the first moment along z, and J_yy about x
    and about y.
    """
    first, tensor = outer(np.array([0.0, 0.0, 1.0]), body.first[2]), outer(np.diag([1.0, 1.0, 0.0]), body.tensor[1, 1])
    return Moments(body.mass, first, tensor)


def move_moments(R: Array, s: Array, body: Moments) -> Moments:
    """Return the moments in frame a of a body given in frame b, which has axes R and origin s in frame a."""
    first = R @ body.first
    tensor = rotate_tensor(R, body.tensor) + shift_tensor(s, first) + point_mass_tensor(s, body.mass)
    return Moments(body.mass, first + outer(s, body.mass), tensor)
