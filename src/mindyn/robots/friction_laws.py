"""Friction laws, each defined once as a formula that NumPy, CasADi (and so machine code, C and CUDA) and reports use.

Friction acts on a speed u with a direction s: its torque is coefficient times formula(u, s).

    u     rad/s or m/s, joint side: speed of the joint, or of the combination of joints that a coupled motor turns
    s     in [-1, 1]: the sign of u, or its approximation in a fit (`mindyn.Friction.direction`)
    load  N m or N: the torque of links and rotors at the joint, for laws that depend on it

A new law is one entry of `FRICTION_LAWS`. A fit can add the laws of `FITTED_SHAPES` as columns, and those of
`LOAD_SHAPES` with the load of a stored reference model (`mindyn.Friction.reference`).

Gear friction that grows with the load [Hamon, Gautier & Garrec 2010]:

    tau_f = (fc + f_load |load|) s + fv u + f_driving load |s|

The fraction f_load + f_driving of the load is lost while the motor drives it, f_load - f_driving while it brakes it.
While a joint moves, f_driving acts like an additional torque gain; joints that share links make it identifiable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.robots.expressions import NUMPY_FUNCTIONS, Formula, parse_formula
from mindyn.robots.parts import ExtraTorque, require_number

LAW_VARIABLES: Final = ("u", "s", "load")


@dataclass(frozen=True)
class FrictionLaw:
    """Friction torque per unit of its coefficient.

    Parameters
    ----------
    formula : str
        Function of u, s, load and the names of `constants` (see `mindyn.robots.expressions`).
    unit : tuple of two str
        Unit of the coefficient for a revolute and for a prismatic joint.
    words : str
        Description for reports.
    constants : mapping of str to float
        Numbers that the formula names, with their default values in a fit.

    Examples
    --------
    >>> import numpy as np
    >>> FrictionLaw("u ** 3", ("N m s^3", "N s^3/m^3"), "cubic").values(np.array([2.0]), np.array([1.0])).tolist()
    [8.0]
    """

    formula: str
    unit: tuple[str, str]
    words: str
    constants: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def parsed(self) -> Formula:
        """Parsed formula, with the values of the constants inserted."""
        given = {name: repr(float(value)) for name, value in self.constants.items()}
        return parse_formula(self.formula, (*LAW_VARIABLES, *given)).substitute(given, LAW_VARIABLES)

    @property
    def needs_load(self) -> bool:
        """Whether the law depends on the torque that the gear carries."""
        return self.parsed.needs_load

    def values(self, u: Array, s: Array, load: Array | None = None) -> Array:
        """Evaluate the law.

        Parameters
        ----------
        u : numpy.ndarray
            Speeds, rad/s or m/s.
        s : numpy.ndarray
            Directions in [-1, 1], of the same shape.
        load : numpy.ndarray, optional
            Loads, N m or N, of the same shape; required if the law depends on them.

        Returns
        -------
        numpy.ndarray
            Friction torque per unit of the coefficient.

        Raises
        ------
        InputError
            If the law depends on the load and none is given.
        """
        if self.needs_load and load is None:
            message = f"the friction law {self.formula!r} depends on the load; pass load="
            raise InputError(message, code=Code.MISSING_VALUE, subject="load")
        given = {"u": u, "s": s, "load": load}
        return np.asarray(self.parsed.evaluate(given, NUMPY_FUNCTIONS)) + np.zeros(np.shape(u))

    def with_constants(self, **constants: float) -> FrictionLaw:
        """Replace some of the constants.

        Parameters
        ----------
        **constants : float
            New values by name.

        Returns
        -------
        FrictionLaw
            Law with the new constants.
        """
        return replace(self, constants={**self.constants, **constants})

    def text(self, u: str, s: str, load: str = "load") -> str:
        """Return the law as the formula of an extra torque.

        Parameters
        ----------
        u, s : str
            Formulas of the speed and its direction.
        load : str, default "load"
            Formula of the load.

        Returns
        -------
        str
            Formula that `ExtraTorque` accepts.
        """
        return self.parsed.substitute({"u": u, "s": s, "load": load}).text


FRICTION_LAWS: Final[Mapping[str, FrictionLaw]] = {
    "speed": FrictionLaw("u", ("N m s", "N s/m"), "viscous: proportional to the speed"),
    "direction": FrictionLaw("s", ("N m", "N"), "Coulomb: constant, against the motion"),
    "difference": FrictionLaw("abs(s)", ("N m", "N"), "half the difference of forward and backward Coulomb friction"),
    "asymmetric": FrictionLaw(
        "abs(u)", ("N m s", "N s/m"), "half the difference of forward and backward viscous friction"
    ),
    "root": FrictionLaw(
        "s * sqrt(abs(u))", ("N m s^0.5", "N s^0.5/m^0.5"), "proportional to the square root of the speed"
    ),
    "square": FrictionLaw("s * u ** 2", ("N m s^2", "N s^2/m^2"), "proportional to the square of the speed"),
    "cubic": FrictionLaw("u ** 3", ("N m s^3", "N s^3/m^3"), "proportional to the cube of the speed"),
    "stribeck": FrictionLaw(
        "s * exp(-(abs(u) / speed) ** exponent)",
        ("N m", "N"),
        "Stribeck: decreases with the speed",  # exponent 1: Tustin 1947; 2: Armstrong-Helouvry 1991
        {"speed": 0.1, "exponent": 1.0},
    ),
    "load": FrictionLaw("abs(load) * s", ("", ""), "Coulomb friction proportional to the load"),
    "driving": FrictionLaw(
        "load * abs(s)", ("", ""), "half the difference of load friction while driving and while braking"
    ),
}
"""Friction laws by name."""

FITTED_SHAPES: Final = ("asymmetric", "root", "square", "cubic", "stribeck")
"""Laws that a fit may add to viscous and Coulomb friction, in the order in which they are tried."""
LOAD_SHAPES: Final = tuple(name for name, law in FRICTION_LAWS.items() if law.needs_load)
"""Load-dependent laws that a fit may add."""


def stribeck(joint: str, torque: float, speed: float, exponent: float = 2.0) -> ExtraTorque:
    """Return Stribeck friction, torque * sign(qd) * exp(-(|qd| / speed)^exponent), which adds to Coulomb friction.

    The friction shape "stribeck" of a fit is the same law with a speed of 0.1 rad/s (m/s) and an exponent of 1.

    Parameters
    ----------
    joint : str
        Name of the joint.
    torque : float
        Additional friction at standstill, N m or N.
    speed : float
        Speed at which it has decayed to 1/e, rad/s or m/s.
    exponent : float, default 2
        1 [Tustin 1947] or 2 [Armstrong-Helouvry 1991].

    Returns
    -------
    ExtraTorque
        Torque to add to `Robot.extras`.

    Raises
    ------
    RobotError
        If the speed or the exponent is not positive.

    Examples
    --------
    >>> stribeck("elbow", 1.5, 0.1).name
    'stribeck_elbow'
    """
    require_number(speed, "the Stribeck speed", least=1e-12)
    require_number(exponent, "the Stribeck exponent", least=1e-12)
    law = FRICTION_LAWS["stribeck"].with_constants(speed=speed, exponent=exponent)
    return ExtraTorque(f"stribeck_{joint}", joint, law.text("qd", "sign(qd)"), torque)
