"""Friction laws, each stated once as a formula; NumPy, CasADi (and so machine code, C and CUDA) and reports read it.

Friction acts on a speed u with a direction s: its torque is coefficient times formula(u, s).

    u     rad/s or m/s, joint side: of the joint, or of what a coupled motor turns
    s     in [-1, 1]: the sign of u, or what a fit takes for it (`mindyn.Friction.direction`)
    load  N m or N: the torque that links and rotors take at the joint, for laws that depend on it

A new law is one entry of `FRICTION_LAWS`. Those that `FITTED_SHAPES` names are columns that a fit may add; those of
`LOAD_SHAPES` besides, with the load of a stored reference model (`mindyn.Friction.reference`).

Friction of a gear that grows with its load [Hamon, Gautier & Garrec 2010]:

    tau_f = (fc + f_load |load|) s + fv u + f_driving load |s|

f_load + f_driving of the load is lost while the motor drives it, f_load - f_driving while it brakes it. While a joint
moves, f_driving acts like another gain of its torque: joints tell it by the links that they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.robots.expressions import NUMPY_FUNCTIONS, Formula, parse_formula
from mindyn.robots.parts import ExtraTorque, require_number

LAW_VARIABLES: Final = ("u", "s", "load")


@dataclass(frozen=True)
class FrictionLaw:
    """A friction torque for each unit of its coefficient.

    formula    of u, s, load and the names of `constants`
    unit       of the coefficient, for a joint that turns and for one that slides
    words      what it is, as a report says it
    constants  numbers that the formula names, with what a fit takes for them
    """

    formula: str
    unit: tuple[str, str]
    words: str
    constants: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def parsed(self) -> Formula:
        """The formula with the constants put in."""
        given = {name: repr(float(value)) for name, value in self.constants.items()}
        return parse_formula(self.formula, (*LAW_VARIABLES, *given)).substitute(given, LAW_VARIABLES)

    @property
    def needs_load(self) -> bool:
        """Whether the law depends on the torque that the gear carries."""
        return self.parsed.needs_load

    def values(self, u: Array, s: Array, load: Array | None = None) -> Array:
        """The law at speeds u and directions s, arrays of one shape."""
        if self.needs_load and load is None:
            raise InputError(f"the friction law {self.formula!r} depends on the load, which was not given")
        given = {"u": u, "s": s, "load": load}
        return np.asarray(self.parsed.evaluate(given, NUMPY_FUNCTIONS)) + np.zeros(np.shape(u))

    def with_constants(self, **constants: float) -> FrictionLaw:
        """The law with other numbers in place of some of its constants."""
        return replace(self, constants={**self.constants, **constants})

    def text(self, u: str, s: str, load: str = "load") -> str:
        """The law as a formula of an extra torque, given the texts of u, s and the load."""
        return self.parsed.substitute({"u": u, "s": s, "load": load}).text


FRICTION_LAWS: Final[Mapping[str, FrictionLaw]] = {
    "speed": FrictionLaw("u", ("N m s", "N s/m"), "viscous: grows with the speed"),
    "direction": FrictionLaw("s", ("N m", "N"), "Coulomb: of one size in either direction"),
    "difference": FrictionLaw("abs(s)", ("N m", "N"), "Coulomb friction forwards less backwards, halved"),
    "asymmetric": FrictionLaw("abs(u)", ("N m s", "N s/m"), "viscous friction forwards less backwards, halved"),
    "root": FrictionLaw("s * sqrt(abs(u))", ("N m s^0.5", "N s^0.5/m^0.5"), "grows with the root of the speed"),
    "square": FrictionLaw("s * u ** 2", ("N m s^2", "N s^2/m^2"), "grows with the square of the speed"),
    "cubic": FrictionLaw("u ** 3", ("N m s^3", "N s^3/m^3"), "grows with the cube of the speed"),
    "stribeck": FrictionLaw(
        "s * exp(-(abs(u) / speed) ** exponent)",
        ("N m", "N"),
        "falls from standstill",  # exponent 1: Tustin 1947; 2: Armstrong-Helouvry 1991
        {"speed": 0.1, "exponent": 1.0},
    ),
    "load": FrictionLaw("abs(load) * s", ("", ""), "Coulomb friction that grows with the load"),
    "driving": FrictionLaw(
        "load * abs(s)", ("", ""), "the same while the load is driven less while it is braked, halved"
    ),
}
"""Every law by its name."""

FITTED_SHAPES: Final = ("asymmetric", "root", "square", "cubic", "stribeck")
"""Laws that a fit may add as columns beside viscous and Coulomb friction, in the order in which they are tried."""
LOAD_SHAPES: Final = tuple(name for name, law in FRICTION_LAWS.items() if law.needs_load)
"""Laws that a fit may add which depend on the load."""


def stribeck(joint: str, torque: float, speed: float, exponent: float = 2.0) -> ExtraTorque:
    """Friction that falls from standstill: torque * sign(qd) * exp(-(|qd| / speed)^exponent), beside Coulomb friction.

    The law of the friction shape "stribeck", whose speed is 0.1 rad/s (m/s) and whose exponent is 1.
    """
    require_number(speed, "the Stribeck speed", least=1e-12)
    require_number(exponent, "the Stribeck exponent", least=1e-12)
    law = FRICTION_LAWS["stribeck"].with_constants(speed=speed, exponent=exponent)
    return ExtraTorque(f"stribeck_{joint}", joint, law.text("qd", "sign(qd)"), torque)


def asymmetric_coulomb(joint: str, torque: float) -> ExtraTorque:
    """Half the difference of Coulomb friction forwards and backwards, while the joint moves."""
    return _make_extra_torque(f"coulomb_difference_{joint}", joint, "difference", torque)


def asymmetric_viscous(joint: str, coefficient: float) -> ExtraTorque:
    """Half the difference of viscous friction forwards and backwards: coefficient * |qd|."""
    return _make_extra_torque(f"viscous_difference_{joint}", joint, "asymmetric", coefficient)


def _make_extra_torque(name: str, joint: str, law: str, coefficient: float) -> ExtraTorque:
    return ExtraTorque(name, joint, FRICTION_LAWS[law].text("qd", "sign(qd)"), coefficient)
