"""Convert plain arguments of a command without pydantic, which typer otherwise imports for every command.

The import takes as long as that of NumPy. Only values whose conversion is certain are converted here. Typer converts
all others, and writes all errors but that of a text that is not a number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import typer
from typer.models import OptionInfo

CONVERSION_FIELDS: Final = ("min", "max", "clamp", "parser", "exists", "file_okay", "dir_okay", "writable", "readable")
CONVERSION_FIELDS_OF_PATHS: Final = ("resolve_path", "allow_dash", "path_type", "case_sensitive")
"""Fields of an option that change its conversion; options that set them are left to typer."""
_DEFAULTS: Final = OptionInfo()
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class PlainConversion:
    """The conversion of a parameter of a command, in the interface of typer's own."""

    annotation: Any
    make_typer_conversion: Callable[[], Any]

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value of the parameter; a parameter that is not given has None, or () if it is repeatable."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        plain = convert_plainly(self.annotation, value)
        if plain is None and self.annotation in (int, float) and isinstance(value, str) and not _is_number(value):
            raise typer.BadParameter(describe_wrong_number(value), ctx=ctx, param=param)
        return self.make_typer_conversion().coerce(value, param=param, ctx=ctx) if plain is None else plain


def convert_params_plainly(params: Iterable[Any]) -> None:
    """Let the parameters of a command convert plain values themselves.

    A version of typer without the method that is replaced keeps its own conversion.
    """
    for param in params:
        make = getattr(param, "get_runtime_param", None)
        if make is None or isinstance(make, _ConstantFunction):
            continue
        descriptor = param.type_descriptor
        fields = (*CONVERSION_FIELDS, *CONVERSION_FIELDS_OF_PATHS)
        if all(getattr(descriptor.parameter_info, name) == getattr(_DEFAULTS, name) for name in fields):
            param.get_runtime_param = _ConstantFunction(PlainConversion(descriptor.annotation, make))


@dataclass(frozen=True, slots=True)
class _ConstantFunction:
    result: PlainConversion

    def __call__(self) -> PlainConversion:
        return self.result


def convert_plainly(annotation: Any, value: Any) -> Any:
    """Return a value of the annotated type, or None if the conversion is left to typer."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return value if isinstance(value, str) and value in inner else None
    if origin in (list, tuple):
        if not isinstance(value, (list, tuple)) or (origin is tuple and len(value) != len(inner)):
            return None
        values = [convert_plainly(inner[k if origin is tuple else 0], item) for k, item in enumerate(value)]
        return None if any(item is None for item in values) else origin(values)
    convert = _CONVERSIONS.get(annotation)
    return None if convert is None else convert(value)


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def describe_wrong_number(text: str) -> str:
    """Return an error with the number that the user probably means."""
    meant = text.replace(",", ".").strip()
    percent = meant.removesuffix("%").strip()
    if percent != meant and _NUMBER.fullmatch(percent):
        return f"{text!r} is not a number; {percent} % of a whole is {float(percent) / 100:g}"
    return f"{text!r} is not a number" + (f"; write {meant}" if _NUMBER.fullmatch(meant) else "")


def _to_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _to_path(value: Any) -> Path | None:
    """Return a path; typer writes the error for a file that cannot be read."""
    if not isinstance(value, (str, Path)) or (os.access(value, os.F_OK) and not os.access(value, os.R_OK)):
        return None
    return Path(value)


def _to_integer(value: Any) -> int | None:
    if isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) else None
    return value if type(value) is int else None


def _to_number(value: Any) -> float | None:
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value) else None
    return float(value) if type(value) in (int, float) else None


_CONVERSIONS: Final[dict[Any, Callable[[Any], Any]]] = {
    str: _to_text,
    Path: _to_path,
    int: _to_integer,
    float: _to_number,
}
