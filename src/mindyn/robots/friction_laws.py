"""Friction laws, each defined once as a formula that NumPy, CasADi (and so machine code, C and CUDA) and reports use.

Friction acts on a speed u with a direction s: its torque is coefficient times formula(u, s).

    u     rad/s or m/s, joint side: speed of the joint, or of the combination of joints that a coupled motor turns
    s     in [-1, 1]: the sign of u, or its approximation in a fit (`mindyn.Friction.direction`)
    load  N m or N: the torque of links and rotors at the joint, for laws that depend on it

A fit can add the laws of `FITTED_SHAPES` as columns, those of `LOAD_SHAPES` with the load of a stored reference model
(`mindyn.Friction.reference`), and laws of your own, which are given to `mindyn.Friction` as objects.

Gear friction that grows with the load [Hamon, Gautier & Garrec 2010]:

    tau_f = (fc + f_load |load|) s + fv u + f_driving load |s|

The fraction f_load + f_driving of the load is lost while the motor drives it, f_load - f_driving while it brakes it.
While a joint moves, f_driving acts like an additional torque gain; joints that share links make it identifiable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.schemas import ANY_NUMBER, ANY_TEXT, list_schema, require_valid, table_schema
from mindyn.robots.expressions import NUMPY_FUNCTIONS, Formula, parse_formula
from mindyn.robots.parts import ExtraTorque, require_finite_number

LAW_VARIABLES: Final = ("u", "s", "load")
LAW: Final = table_schema(
    {"name": ANY_TEXT, "formula": ANY_TEXT},
    {
        "unit": list_schema(ANY_TEXT, minItems=2, maxItems=2),
        "words": ANY_TEXT,
        "constants": {"type": "object", "additionalProperties": ANY_NUMBER},
    },
)
"""The JSON Schema of a friction law."""
CHECKED_SPEEDS: Final = (-10.0, -1.0, -0.1, -1e-3, -1e-6, 0.0, 1e-6, 1e-3, 0.1, 1.0, 10.0)
"""Speeds at which a law must have a finite value, rad/s or m/s."""


@dataclass(frozen=True)
class FrictionLaw:
    """Friction torque per unit of its coefficient.

    Parameters
    ----------
    name : str
        Name of the shape; its coefficient at joint 1 is `f_name1`.
    formula : str
        Function of u, s, load and the names of `constants` (see `mindyn.robots.expressions`).
    unit : tuple of two str, default ("N m", "N")
        Unit of the coefficient for a revolute and for a prismatic joint.
    words : str, default ""
        Description for reports.
    constants : mapping of str to float, optional
        Numbers that the formula names.

    Raises
    ------
    InputError
        If the name is not an identifier, or the formula is not text, cannot be parsed, or has no finite value at some
        speed.

    Examples
    --------
    >>> import numpy as np
    >>> FrictionLaw("cubic", "u ** 3").values(np.array([2.0]), np.array([1.0])).tolist()
    [8.0]
    """

    name: str
    formula: str
    unit: tuple[str, str] = ("N m", "N")
    words: str = ""
    constants: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise InputError(
                f"the name of a friction law must be an identifier, such as 'creep', got {self.name!r}",
                code=Code.INVALID_VALUE,
                subject="name",
            )
        if not isinstance(self.formula, str):
            raise InputError(
                f"the formula of the friction law {self.name!r} must be text, got {type(self.formula).__name__}",
                hint="a Python function cannot be written to JSON, C or CUDA; write it as text of u, s and constants, "
                'such as "s * log(1 + abs(u) / speed)"',
                code=Code.WRONG_TYPE,
                subject="formula",
            )
        _require_finite_values(self)

    def __hash__(self) -> int:
        return hash((self.name, self.formula, tuple(sorted(self.constants.items()))))

    @cached_property
    def parsed(self) -> Formula:
        """Parsed formula, in which the values of the constants replace their names."""
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

    def to_dict(self) -> dict[str, Any]:
        """Return the law in types that JSON can store."""
        return {**asdict(self), "unit": list(self.unit), "constants": dict(self.constants)}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> FrictionLaw:
        """Return the law that `to_dict` stored."""
        require_valid(values, LAW, "friction law")
        return FrictionLaw(**{**values, "unit": tuple(values.get("unit", ("N m", "N")))})

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
            Formulas to insert for the speed and for its direction, such as "qd" and "sign(qd)".
        load : str, default "load"
            Formula to insert for the load.

        Returns
        -------
        str
            Formula that `ExtraTorque` accepts.
        """
        return self.parsed.substitute({"u": u, "s": s, "load": load}).text


def _require_finite_values(law: FrictionLaw) -> None:
    u = np.array(CHECKED_SPEEDS)
    with np.errstate(all="ignore"):
        values = law.values(u, np.sign(u), np.ones(len(u)))
    if not (is_finite := np.isfinite(values)).all():
        raise InputError(
            f"the friction law {law.name!r} has no finite value at a speed of {u[~is_finite][0]:g}: {law.formula}",
            hint='a law must have a value at every speed, also at rest; write "log(1 + abs(u))" in place of "log(u)"',
            code=Code.NOT_FINITE,
            subject="formula",
        )


_ALL_LAWS: Final = (
    FrictionLaw("speed", "u", ("N m s", "N s/m"), "viscous: proportional to the speed"),
    FrictionLaw("direction", "s", ("N m", "N"), "Coulomb: constant, against the motion"),
    FrictionLaw("difference", "abs(s)", ("N m", "N"), "half the difference of forward and backward Coulomb friction"),
    FrictionLaw(
        "asymmetric", "abs(u)", ("N m s", "N s/m"), "half the difference of forward and backward viscous friction"
    ),
    FrictionLaw(
        "root", "s * sqrt(abs(u))", ("N m s^0.5", "N s^0.5/m^0.5"), "proportional to the square root of the speed"
    ),
    FrictionLaw("square", "s * u ** 2", ("N m s^2", "N s^2/m^2"), "proportional to the square of the speed"),
    FrictionLaw("cubic", "u ** 3", ("N m s^3", "N s^3/m^3"), "proportional to the cube of the speed"),
    FrictionLaw(
        "stribeck",
        "s * exp(-(abs(u) / speed) ** exponent)",
        ("N m", "N"),
        "Stribeck: decreases with the speed",  # exponent 1: Tustin 1947; 2: Armstrong-Helouvry 1991
        {"speed": 0.1, "exponent": 1.0},
    ),
    FrictionLaw("load", "abs(load) * s", ("", ""), "Coulomb friction proportional to the load"),
    FrictionLaw(
        "driving", "load * abs(s)", ("", ""), "half the difference of load friction while driving and while braking"
    ),
)
FRICTION_LAWS: Final[Mapping[str, FrictionLaw]] = MappingProxyType({law.name: law for law in _ALL_LAWS})
"""Friction laws by name. It cannot be changed: give a law of your own to `mindyn.Friction`."""

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
    require_finite_number(speed, "the Stribeck speed", least=1e-12)
    require_finite_number(exponent, "the Stribeck exponent", least=1e-12)
    law = FRICTION_LAWS["stribeck"].with_constants(speed=speed, exponent=exponent)
    return ExtraTorque(f"stribeck_{joint}", joint, law.text("qd", "sign(qd)"), torque)
