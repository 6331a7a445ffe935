"""`EquationSettings`: how logs become equations; one frozen value that is saved with an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar, get_args

from mindyn.equations.identifiability.base_sets import FORMS
from mindyn.foundation.algebra.requirements import require_type
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.schemas import POSITIVE_INTEGER, POSITIVE_NUMBER, allow_also, require_valid, table_schema
from mindyn.logs.conditioning import Conditioning
from mindyn.regression.friction import Friction

Auto = Literal["auto"]
DriveParameters = Literal["stated", "estimated"]
PLAIN_FRICTION: Final = Friction()
Chosen = TypeVar("Chosen", float | None, int, Friction)


SETTINGS_SCHEMA: Final = table_schema(
    {
        "conditioning": {"type": ["object", "null"]},
        "equations_hz": allow_also(POSITIVE_NUMBER, "auto", null=True),
        "keep_every": allow_also(POSITIVE_INTEGER, "auto"),
        "friction": allow_also({"type": "object"}, "auto"),
        "base_form": {"enum": FORMS},
        "drive_parameters": {"enum": get_args(DriveParameters)},
    }
)
"""The JSON Schema of settings; `Conditioning` and `Friction` check their own tables."""


@dataclass(frozen=True, slots=True)
class Filtering:
    """Both low-pass filters between a log and its equations, in the order in which they act.

    Attributes
    ----------
    motion_hz : float, "auto" or None
        Cut-off of the filter on positions, before they are differentiated (`Conditioning.motion_hz`); None for no
        filter.
    equations_hz : float or None
        Cut-off of the filter on both sides of the equations, columns and torque. Without noise, this filter does not
        change the solution (`EquationSettings.equations_hz`); None for no filter.
    keep_every : int
        One of this many filtered equations is kept, because neighbouring equations have nearly the same content
        (`EquationSettings.keep_every`).
    """

    motion_hz: float | Auto | None
    equations_hz: float | None
    keep_every: int

    @property
    def of_equations(self) -> tuple[float | None, int]:
        """Return the cut-off of the filter on the equations, and n if one of n equations is kept."""
        return self.equations_hz, self.keep_every

    def describe_equations(self) -> list[str]:
        """Return texts about the filter on the equations, such as `["low-passed at 5 Hz", "one of 4 kept"]`."""
        filtered = [] if self.equations_hz is None else [f"low-passed at {self.equations_hz:.3g} Hz"]
        return [*filtered, *([f"one of {self.keep_every} kept"] if self.keep_every > 1 else [])]


@dataclass(frozen=True, slots=True)
class EquationSettings:
    """How logs become equations tau = Y beta.

    `choose` and `identify` select entries that are "auto". Dropped columns are not part of the settings: they are
    selected after the equations are gathered.

    Parameters
    ----------
    conditioning : Conditioning, optional
        How logs become samples. None: `choose` selects it, or the data are samples already.
    equations_hz : float, "auto" or None, default None
        Cut-off of the zero-phase low-pass filter of columns and torque ("parallel filter"), in Hz; None for no filter.
    keep_every : int or "auto", default 1
        Keep one of this many filtered rows.
    friction : Friction or "auto"
        Shape of the friction columns.
    base_form : str, default "structural"
        Form of the base set (see `base_parameters`); "lin" has the columns of Lin's own recursion.
    drive_parameters : {"estimated", "stated"}, default "estimated"
        "estimated": every joint without a drive gets one, coupled by the gears of the logs, so that rotor inertia,
        friction and offset are parameters. "stated": only the drives in the robot file.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    conditioning: Conditioning | None = None
    equations_hz: float | Auto | None = None
    keep_every: int | Auto = 1
    friction: Friction | Auto = PLAIN_FRICTION
    base_form: str = "structural"
    drive_parameters: DriveParameters = "estimated"

    def __post_init__(self) -> None:
        values = {name: getattr(self, name) for name in ("equations_hz", "keep_every", "base_form", "drive_parameters")}
        require_valid(values, {**SETTINGS_SCHEMA, "required": []}, "settings")
        if self.conditioning is not None:
            require_type(
                self.conditioning, Conditioning, "conditioning", "pass Conditioning(...), or None, which selects it"
            )
        if self.friction != "auto":
            require_type(self.friction, Friction, "friction", 'or "auto", which selects it')

    @staticmethod
    def automatic(conditioning: Conditioning | None = None) -> EquationSettings:
        """Return settings that select everything except the given conditioning."""
        return EquationSettings(conditioning, "auto", "auto", "auto")

    @property
    def is_selected(self) -> bool:
        """Return whether no setting is "auto": each one was given by the user or selected."""
        open_ones = (self.equations_hz, self.keep_every, self.friction)
        return "auto" not in open_ones and (self.conditioning is None or self.conditioning.is_resolved)

    @property
    def filtering(self) -> Filtering:
        """Return both filters and the decimation; raise if those of the equations are not selected yet."""
        motion = None if self.conditioning is None else self.conditioning.motion_hz
        equations = _require_selected(self.equations_hz, "equations_hz")
        return Filtering(motion, equations, _require_selected(self.keep_every, "keep_every"))

    @property
    def shape(self) -> Friction:
        """Return the friction; raise if it is not selected yet."""
        return _require_selected(self.friction, "friction")

    @property
    def fit_conditioning(self) -> Conditioning | None:
        """Return the conditioning of the rows of a fit.

        If there is a parallel filter, it removes the ends of segments itself.
        """
        if self.conditioning is None or self.equations_hz is None:
            return self.conditioning
        return replace(self.conditioning, edge_s=0.0)

    def unfiltered(self) -> EquationSettings:
        """Return the settings for every sample, without the parallel filter."""
        return replace(self, equations_hz=None, keep_every=1)

    def without_load(self) -> EquationSettings:
        """Return the settings without friction that depends on the load."""
        return self if isinstance(self.friction, str) else replace(self, friction=self.friction.without_load())

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in types that JSON can store."""
        parts = {
            "conditioning": None if self.conditioning is None else self.conditioning.to_dict(),
            "friction": self.friction if isinstance(self.friction, str) else self.friction.to_dict(),
        }
        return {name: parts.get(name, getattr(self, name)) for name in SETTINGS_SCHEMA["properties"]}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> EquationSettings:
        """Return the settings that `to_dict` stored."""
        require_valid(values, SETTINGS_SCHEMA, "settings")
        conditioning, friction = values["conditioning"], values["friction"]
        parts = {
            "conditioning": None if conditioning is None else Conditioning.from_dict(conditioning),
            "friction": "auto" if friction == "auto" else Friction.from_dict(friction),
        }
        return EquationSettings(**{**values, **parts})


def _require_selected(value: Chosen | Auto, name: str) -> Chosen:
    if isinstance(value, str):
        raise InputError(
            f'{name} is "{value}" and not selected yet',
            hint="choose(robot, logs).settings selects it on training logs",
            code=Code.MISSING_VALUE,
            subject=name,
        )
    return value
