"""`Fourier`: sines and cosines of a base frequency, brought to rest by smooth ramps or by their coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any, Final

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.linalg import null_space

from mindyn.algebra.values import Array
from mindyn.errors import Code, InputError
from mindyn.schemas import POSITIVE_INTEGER, require_valid, table_schema

RAMP: Final = np.polynomial.Polynomial([0, 0, 0, 0, 35, -84, 70, -20])
"""From 0 at 0 to 1 at 1, with three zero derivatives at both ends."""
RAMPS: Final = tuple(RAMP.deriv(order).coef for order in range(len(RAMP.coef)))
"""Coefficients of the ramp and its derivatives, lowest power first."""


FOURIER: Final = table_schema(
    {},
    {
        "harmonics": POSITIVE_INTEGER,
        "periods": POSITIVE_INTEGER,
        "ramp_s": {"type": "number", "minimum": 0, "maximum": 1e6},
    },
)
"""The JSON Schema of the settings."""


@dataclass(frozen=True)
class Fourier:
    """Fourier series that starts and ends at rest [Swevers et al. 1997].

    The functions are sin(k w s) and cos(k w s), k = 1 ... harmonics; s is the time since the end of the first ramp.

    Parameters
    ----------
    harmonics : int, default 5
        Number of harmonics.
    periods : int, default 1
        Number of whole periods of 2 pi / w between the ramps.
    ramp_s : float, default 2.0
        Seconds over which the functions are faded in and out. With 0 the motion is periodic, and its coefficients are
        constrained: velocity and acceleration are zero at the start.

    Raises
    ------
    InputError
        If a number is not positive, or one harmonic has no ramp.

    Examples
    --------
    >>> Fourier(3).count
    6
    """

    harmonics: int = 5
    periods: int = 1
    ramp_s: float = 2.0

    def __post_init__(self) -> None:
        require_valid({name: getattr(self, name) for name in FOURIER["properties"]}, FOURIER, "Fourier")
        object.__setattr__(self, "ramp_s", float(self.ramp_s))
        if self.ramp_s == 0 and self.harmonics < 2:
            raise InputError(
                "without ramps one harmonic cannot start at rest; take two or more, or a ramp",
                code=Code.OUT_OF_RANGE,
                subject="harmonics",
            )

    @property
    def count(self) -> int:
        """Return m."""
        return 2 * self.harmonics if self.ramp_s else 2 * self.harmonics - 2

    def cycles(self, seconds: float) -> float:
        """Return the number of periods of the last harmonic in the motion."""
        return self.harmonics * seconds / self.period(seconds)

    def period(self, seconds: float) -> float:
        """Return the period of the first harmonic, s."""
        between = seconds - 2 * self.ramp_s
        if between <= 0:
            raise InputError(
                f"two ramps of {self.ramp_s:g} s leave nothing of a motion of {seconds:g} s",
                hint="take a longer motion, or a shorter ramp: Fourier(ramp_s=...)",
                code=Code.OUT_OF_RANGE,
                subject="ramp_s",
            )
        return between / self.periods

    def basis(self, t: Array, seconds: float, order: int) -> Array:
        """(N, m); see `Family`."""
        if self.ramp_s:
            # Leibniz: (r f)^(d) = sum_k binomial(d, k) r^(k) f^(d - k)
            ramps = (self._ramp(t, seconds, k) for k in range(order + 1))
            terms = (comb(order, k) * ramp[:, None] * self._waves(t, seconds, order - k)
                     for k, ramp in enumerate(ramps) if k == 0 or ramp.any())  # fmt: skip
            return np.asarray(sum(terms))
        waves = self._waves(t, seconds, order)
        if order == 0:
            waves = waves - self._waves(np.zeros(1), seconds, 0)
        return np.asarray(waves @ self._at_rest)

    def amplitudes(self, coefficients: Array) -> tuple[Array, Array]:
        """Return the amplitudes of the sines and of the cosines, (harmonics, n) each."""
        both = coefficients if self.ramp_s else self._at_rest @ coefficients
        return both[: self.harmonics], both[self.harmonics :]

    def to_dict(self) -> dict[str, Any]:
        """See `Family`."""
        return {"kind": "Fourier", "harmonics": self.harmonics, "periods": self.periods, "ramp_s": self.ramp_s}

    def _waves(self, t: Array, seconds: float, order: int) -> Array:
        """Return derivatives of sines, then cosines: each derivative shifts the phase by a quarter."""
        w = 2 * np.pi / self.period(seconds) * np.arange(1, self.harmonics + 1)
        angle = np.outer(t - self.ramp_s, w) + order * np.pi / 2
        return np.asarray(np.concatenate([np.sin(angle), np.cos(angle)], axis=1) * np.tile(w, 2) ** order)

    def _ramp(self, t: Array, seconds: float, order: int) -> Array:
        rising, falling = t / self.ramp_s, (seconds - t) / self.ramp_s
        ramp = np.full(t.shape, 1.0 if order == 0 else 0.0)
        for side, sign in ((falling, (-1) ** order), (rising, 1)):
            if (at := side < 1).any():
                ramp[at] = sign * polyval(side[at], RAMPS[order]) / self.ramp_s**order
        return ramp

    @cached_property
    def _at_rest(self) -> Array:
        """Return combinations (2 harmonics, m) with sum of k a_k = 0 and sum of k^2 b_k = 0."""
        k = np.arange(1, self.harmonics + 1)
        Z = np.zeros((2 * self.harmonics, self.count))
        Z[: self.harmonics, : self.harmonics - 1] = null_space(k[None, :].astype(float))
        Z[self.harmonics :, self.harmonics - 1 :] = null_space(k[None, :].astype(float) ** 2)
        return Z
