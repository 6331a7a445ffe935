"""`Payload`: the ten identified parameters of a load, in the frame of the link that carries it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindyn.foundation.algebra.inertia import (
    mass_com_inertia,
    phi_map,
    point_tensor,
    tensor_entries,
    tensor_from_entries,
)
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.significance import NORMAL_95
from mindyn.foundation.algebra.values import Array, ShortRepr
from mindyn.foundation.findings import Finding, Kind
from mindyn.foundation.notation import LINK_PARAMETERS
from mindyn.foundation.pages.notebook_display import NotebookDisplay

LOAD_SIZE_M: Final = 0.1
"""Assumed size of a load, m. A parameter counts as identifiable if its half-width is below m * LOAD_SIZE_M / 2 (first
moment), m * LOAD_SIZE_M^2 (inertia), or m / 2 (mass).
"""
MIN_MASS_KG: Final = 1e-6
MAX_LOAD_HALF_WIDTHS: Final = 3.0
"""Largest distance of the nearest feasible load from the fit, in half-widths of 95 % intervals: for ten correct
parameters, the chi-square distance is below 2.8 of them in 999 of 1000 runs."""


def _format_value(value: float, half_width: float) -> str:
    return f"{value:.4g}" + (f" +- {half_width:.2g}" if np.isfinite(half_width) else "")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Payload(ShortRepr, NotebookDisplay):
    """Ten parameters of a load in the frame of the link that carries it.

    Attributes
    ----------
    link : str
    phi : ndarray, shape (10,)
        Parameters of the nearest feasible load.
    covariance : ndarray, shape (10, 10)
        Covariance of the unconstrained parameters.
    unidentifiable : tuple of str
        Parameters that the runs do not determine.
    factor : float
        Half-width of a 95 % interval in standard deviations.
    findings : tuple of Finding
    unconstrained : ndarray, shape (10,), optional
        Parameters of the fit itself.
    gain_deviation : float
        Relative standard deviation of the torque scale that the covariance contains.
    """

    link: str
    phi: Array
    covariance: Array
    unidentifiable: tuple[str, ...]
    factor: float = NORMAL_95
    findings: tuple[Finding, ...] = ()
    unconstrained: Array | None = None
    gain_deviation: float = 0.0

    @property
    def mass(self) -> float:
        """Return the mass, kg."""
        return float(self.phi[0])

    @property
    def centre(self) -> Array:
        """Return the centre of mass (3,) in the link frame, m."""
        return np.asarray(self.phi[1:4] / self.phi[0])

    @property
    def inertia_about_centre(self) -> Array:
        """Return the inertia tensor (3, 3) about the centre of mass, axes of the link frame, kg m^2."""
        return mass_com_inertia(self.phi)[2]

    @property
    def half_widths(self) -> Array:
        """Return the half-widths (10,) of the 95 % intervals about the unconstrained parameters."""
        return np.asarray(self.factor * np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    @property
    def mass_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the mass, kg.

        The interval is that of the fit, extended to the mass of the nearest feasible load, unless this load contradicts
        the fit (`is_feasible`).
        """
        middle = float((self.phi if self.unconstrained is None else self.unconstrained)[0])
        low, high = middle - float(self.half_widths[0]), middle + float(self.half_widths[0])
        return (min(low, self.mass), max(high, self.mass)) if self.is_feasible else (low, high)

    @property
    def is_feasible(self) -> bool:
        """Return whether a feasible load lies within `MAX_LOAD_HALF_WIDTHS` half-widths of the fit."""
        if self.unconstrained is None:
            return True
        distance = np.linalg.norm(self.metric() @ (self.phi - self.unconstrained))
        return bool(distance <= MAX_LOAD_HALF_WIDTHS * self.factor)

    def metric(self) -> Array:
        """Return M (10, 10) with which |M dphi| is a distance in standard deviations."""
        scale = np.sqrt(np.maximum(np.diag(self.covariance), 1e-300))
        values, vectors = np.linalg.eigh(self.covariance / np.outer(scale, scale))
        return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-9 * values.max()))).T / scale)

    @property
    def centre_half_widths(self) -> Array:
        """Return the half-widths (3,) of the 95 % intervals of the centre, m, computed from c = mc / m."""
        slopes = np.column_stack([-self.centre, np.eye(3)]) / self.mass
        return np.asarray(self.factor * np.sqrt(np.diag(slopes @ self.covariance[:4, :4] @ slopes.T)))

    @property
    def inertia_half_widths(self) -> Array:
        """Return the half-widths (3, 3) of the 95 % intervals of the inertia about the centre, kg m^2."""
        moment, mass = self.phi[1:4], self.mass
        E = np.eye(3)
        slopes = np.zeros((6, 10))
        slopes[:, 0] = tensor_entries(point_tensor(moment)) / mass**2
        for k in range(3):
            change = 2 * moment[k] * E - np.outer(E[k], moment) - np.outer(moment, E[k])
            slopes[:, 1 + k] = -tensor_entries(change) / mass
        slopes[:, 4:] = np.eye(6)
        variances = np.einsum("ij,jk,ik->i", slopes, self.covariance, slopes)
        return tensor_from_entries(self.factor * np.sqrt(np.maximum(variances, 0.0)))

    def __str__(self) -> str:
        centre = " ".join(_format_value(*pair) for pair in zip(self.centre, self.centre_half_widths, strict=True))
        rows = zip(self.inertia_about_centre, self.inertia_half_widths, strict=True)
        tensor = ["  " + "  ".join(_format_value(*pair) for pair in zip(*row, strict=True)) for row in rows]
        low, high = self.mass_interval
        lines = [
            f"load on {self.link}, with 95 % intervals",
            f"mass     {self.mass:.4g} kg" + (f" ({low:.4g} to {high:.4g})" if np.isfinite(low) else ""),
            f"centre   {centre} m",
            "inertia about the centre, kg m^2",
            *tensor,
        ]
        if self.unidentifiable:
            lines.append(f"not determined: {', '.join(self.unidentifiable)}")
        return "\n".join(lines)

    def in_frame(self, pose: Pose, name: str) -> Payload:
        """Return the load, with its covariance, in the axes of a frame with this pose in the link frame."""
        T = phi_map(pose.inverse())
        unconstrained = None if self.unconstrained is None else T @ self.unconstrained
        covariance = T @ self.covariance @ T.T
        load = replace(self, link=name, phi=T @ self.phi, covariance=covariance, unconstrained=unconstrained)
        return replace(load, unidentifiable=find_undetermined_parameters(load) if self.unidentifiable else ())


def find_undetermined_parameters(load: Payload) -> tuple[str, ...]:
    """Return the parameters whose 95 % interval is wider than a load with that mass allows."""
    mass = max(abs(float(load.phi[0])), MIN_MASS_KG)
    allowed = np.array([0.5 * mass, *[0.5 * mass * LOAD_SIZE_M] * 3, *[mass * LOAD_SIZE_M**2] * 6])
    wide = load.half_widths > allowed
    wide[0] |= any(finding.kind is Kind.UNDETERMINED_MASS for finding in load.findings)
    return tuple(name for name, is_wide in zip(LINK_PARAMETERS, wide, strict=True) if is_wide)
