"""Orderings, symbols and units, defined once (see NOTATION.md)."""

from __future__ import annotations

from typing import Final

LINK_PARAMETERS: Final = ("m", "mcx", "mcy", "mcz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
"""Standard parameters of one link, in order: mass, first moment, inertia tensor about the frame origin."""

LINK_PARAMETER_UNITS: Final = ("kg", *("kg m",) * 3, *("kg m^2",) * 6)

TENSOR_INDICES: Final = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
"""Row and column of the tensor entries Ixx, Ixy, Iyy, Ixz, Iyz, Izz of `LINK_PARAMETERS[4:]`."""

PARAMETERS_PER_LINK: Final = len(LINK_PARAMETERS)

DRIVE_PARAMETERS: Final = ("rotor_inertia", "viscous", "coulomb", "offset")
"""Parameters of one drive, in order."""

STANDARD_GRAVITY: Final = (0.0, 0.0, -9.81)
"""Gravity in the root frame, m/s^2, for files that do not define it."""
