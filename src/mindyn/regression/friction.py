"""`Friction`: which columns describe friction: functions of the speed and of the direction of motion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.requirements import require_positive
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.schemas import ANY_NUMBER, ANY_TEXT, list_schema, require_valid, table_schema
from mindyn.robots.friction_laws import FITTED_SHAPES, FRICTION_LAWS, LAW, LOAD_SHAPES, FrictionLaw

Direction = Literal["sign", "tanh", "stop"]

FRICTION: Final = table_schema(
    {"direction": {"enum": get_args(Direction)}, "width": {"type": "number", "minimum": 0}},
    {
        "shapes": list_schema({"enum": (*FITTED_SHAPES, *LOAD_SHAPES)}),
        "laws": list_schema(LAW),
        "joint_side": list_schema(ANY_TEXT),
        "reference": list_schema(ANY_NUMBER),
        "without": list_schema(list_schema(ANY_TEXT, minItems=2, maxItems=2)),
    },
)
"""The JSON Schema of the friction columns."""


@dataclass(frozen=True, slots=True, init=False)
class Friction:
    """Shape of the friction columns of every drive.

    The Coulomb column is a function of the speed u that friction acts on.

    Parameters
    ----------
    direction : {"sign", "tanh", "stop"}, default "sign"
        sign(u); tanh(u / width); or the stop operator z' = u / width while abs(z) < 1, which keeps its value at rest
        and reverses sign within 2 width of travel, as presliding friction does [Dahl 1968].
    width : float, default 0.0
        In rad/s ("tanh") or rad ("stop") at the joint; not used by "sign".
    shapes : tuple of str or FrictionLaw, optional
        Names out of `FITTED_SHAPES` and `LOAD_SHAPES`, and laws of your own that depend on speed and direction; each
        adds a column for every drive.
    joint_side : tuple of str, optional
        Joints with additional viscous and Coulomb columns of their own motion, besides those of their coupled motor.
    reference : tuple of float, optional
        Base values whose links and rotors give the load of `LOAD_SHAPES`. With fixed values, the columns of these
        shapes are linear in the estimated parameters. `identify` computes the reference; an estimate stores its own
        values.
    without : tuple of (str, str), optional
        Pairs (joint, shape): the drive of this joint does not have the column of this shape.
    laws : tuple of FrictionLaw, optional
        Laws of your own that `shapes` contains by name; laws in `shapes` are moved here, and their names stay there.

    Raises
    ------
    InputError
        If the direction or a shape is unknown, the width is not positive where it is needed, or a law of your own has
        the name of a built-in one or depends on the load.

    Examples
    --------
    >>> from mindyn.robots import FrictionLaw
    >>> creep = FrictionLaw("creep", "s * log(1 + abs(u) / speed)", constants={"speed": 0.05})
    >>> mindyn.Friction("tanh", 0.03, ("stribeck", creep)).shapes
    ('stribeck', 'creep')
    """

    direction: Direction = "sign"
    width: float = 0.0
    shapes: tuple[str, ...] = ()
    joint_side: tuple[str, ...] = ()
    reference: tuple[float, ...] = ()
    without: tuple[tuple[str, str], ...] = ()
    laws: tuple[FrictionLaw, ...] = ()

    def __init__(
        self,
        direction: Direction = "sign",
        width: float = 0.0,
        shapes: Sequence[str | FrictionLaw] = (),
        joint_side: tuple[str, ...] = (),
        reference: tuple[float, ...] = (),
        without: tuple[tuple[str, str], ...] = (),
        laws: Sequence[FrictionLaw] = (),
    ) -> None:
        listed = (shapes,) if isinstance(shapes, (str, FrictionLaw)) else tuple(shapes)
        own = {law.name: law for law in (*laws, *listed) if isinstance(law, FrictionLaw)}
        names = tuple(shape.name if isinstance(shape, FrictionLaw) else shape for shape in listed)
        values = (direction, width, names, joint_side, reference, without)
        used = tuple(law for name, law in own.items() if name in names)
        for name, value in zip(self.__slots__, (*values, used), strict=True):
            object.__setattr__(self, name, value)
        self._require_valid(own)

    def _require_valid(self, own: Mapping[str, FrictionLaw]) -> None:
        for law in own.values():
            _require_own_law(law)
        given = {name: getattr(self, name) for name in FRICTION["properties"] if name != "laws"}
        given["shapes"] = tuple(name for name in self.shapes if name not in own)
        require_valid(given, FRICTION, "friction")
        if self.direction != "sign":
            require_positive(self.width, "width", f"direction {self.direction!r} needs a width")

    @property
    def needs_load(self) -> bool:
        """Return whether a shape depends on the load."""
        return any(name in LOAD_SHAPES for name in self.shapes)

    def law(self, shape: str) -> FrictionLaw:
        """Return the friction law with the name of a shape."""
        return next((law for law in self.laws if law.name == shape), None) or FRICTION_LAWS[shape]

    @property
    def motion_key(self) -> tuple[str, float, tuple[str, ...]]:
        """Return the settings on which the result of `directions` depends."""
        return self.direction, self.width, self.joint_side

    def without_load(self) -> Friction:
        """Return the friction without shapes that depend on the load."""
        kept = tuple(name for name in self.shapes if name not in LOAD_SHAPES)
        return replace(self, shapes=kept, reference=(), without=_pairs_of(self.without, kept))

    def without_shapes(self) -> Friction:
        """Return the friction with only viscous and Coulomb columns."""
        return replace(self, shapes=(), reference=(), without=())

    def shapes_of(self, joint: str) -> tuple[str, ...]:
        """Return the shapes for which the drive of a joint has a column."""
        return tuple(name for name in self.shapes if (joint, name) not in self.without)

    def exclude(self, pairs: Iterable[tuple[str, str]], joints: Sequence[str]) -> Friction:
        """Return the friction with further pairs (joint, shape) excluded, and without shapes that no joint has then."""
        without = {*self.without, *pairs}
        shapes = tuple(name for name in self.shapes if any((joint, name) not in without for joint in joints))
        friction = replace(self, shapes=shapes, without=_pairs_of(sorted(without), shapes))
        return friction if friction.needs_load else replace(friction, reference=())

    def directions(self, u: Array, segments: NDArray[np.int64], rate_hz: float) -> Array:
        """Return directions s (N, k) for speeds u (N, k), rad/s at the joint side.

        A stop operator starts every segment at 0.
        """
        if self.direction == "sign":
            return np.sign(u)
        if self.direction == "tanh":
            return np.asarray(np.tanh(u / self.width))
        return _stop_operator(u / (self.width * rate_hz), segments)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in types that JSON can store."""
        saved: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__ if name != "laws"}
        saved = {name: list(value) if isinstance(value, tuple) else value for name, value in saved.items()}
        saved["without"] = [list(pair) for pair in self.without]
        return saved if not self.laws else {**saved, "laws": [law.to_dict() for law in self.laws]}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Friction:
        """Return the settings that `to_dict` stored."""
        require_valid({**values, "shapes": []}, FRICTION, "friction")
        own = [law["name"] for law in values.get("laws", ())]
        shapes = values.get("shapes", [])
        built_in = [name for name in shapes if name not in own] if isinstance(shapes, (list, tuple)) else shapes
        require_valid({**values, "shapes": built_in}, FRICTION, "friction")
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        given["without"] = tuple((joint, shape) for joint, shape in given.get("without", ()))
        return Friction(**{**given, "laws": tuple(map(FrictionLaw.from_dict, given.get("laws", ())))})


def _require_own_law(law: FrictionLaw) -> None:
    """Raise `InputError` if a law of the user has a built-in name or depends on the load."""
    if law.name in FRICTION_LAWS and law != FRICTION_LAWS[law.name]:
        raise InputError(
            f"{law.name!r} is the name of a built-in friction law",
            hint=f"choose another name for your law; built in are: {', '.join(FRICTION_LAWS)}",
            code=Code.DUPLICATE,
            subject="shapes",
        )
    if law.needs_load and law.name not in LOAD_SHAPES:
        raise InputError(
            f"the friction law {law.name!r} depends on the load, which a fit has for {', '.join(LOAD_SHAPES)} alone",
            hint="use these shapes, or add the torque with a known coefficient as an ExtraTorque of the robot",
            code=Code.UNSUPPORTED,
            subject="shapes",
        )


def _pairs_of(pairs: Iterable[tuple[str, str]], shapes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs whose shape is one of these."""
    return tuple((joint, shape) for joint, shape in pairs if shape in shapes)


def _stop_operator(steps: Array, segments: NDArray[np.int64]) -> Array:
    """Return z_k = clip(z_(k-1) + steps_k, -1, 1), from 0 at the first row of every segment.

    The map of several consecutive rows has the form x -> clip(x + a, low, high). Parts of the rows are therefore
    computed in parallel: first the map of each part, which gives the value at its start, then all values.
    """
    count, width = steps.shape
    length = max(1, round(count**0.5))
    runs = -(-count // length)
    first = np.zeros(runs * length, dtype=bool)
    first[np.flatnonzero(np.diff(segments, prepend=segments[:1] - 1))] = True
    padded = np.zeros((runs * length, width))
    padded[:count] = steps
    rows = np.ascontiguousarray(padded.reshape(runs, length, width).transpose(1, 0, 2))
    new = np.ascontiguousarray(first.reshape(runs, length).T)[:, :, None]
    a, low, high = np.zeros((runs, width)), np.full((runs, width), -np.inf), np.full((runs, width), np.inf)
    for step, begins in zip(rows, new, strict=True):
        a, low, high = a + step, np.clip(low + step, -1.0, 1.0), np.clip(high + step, -1.0, 1.0)
        if begins.any():  # whatever came before, a segment starts at zero
            a, low, high = (np.where(begins, 0.0, bound) for bound in (a, low, high))
    z = np.zeros((runs, width))
    for k in range(runs - 1):
        z[k + 1] = np.clip(z[k] + a[k], low[k], high[k])
    for step, begins in zip(rows, new, strict=True):
        z = np.clip(z + step, -1.0, 1.0)
        step[:] = z = np.where(begins, 0.0, z) if begins.any() else z
    return np.ascontiguousarray(rows.transpose(1, 0, 2)).reshape(-1, width)[:count]
