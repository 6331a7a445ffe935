"""Write a payload in the formats of robot controllers.

Every format takes mass, centre of mass and inertia about the centre of mass in the frame of the flange. URScript and
Franka take the whole tensor; KUKA and ABB take principal moments and the rotation of the principal axes.

UR      Script manual, set_target_payload: https://www.universal-robots.com/manuals
Franka  libfranka, Robot::setLoad (robot.h), and "End effector commissioning" of the RIDE manual: https://download.franka.de
KUKA    "Load centre of gravity and mass moment of inertia" of the operating manuals, LOAD_DATA in $config.dat
ABB     Technical reference manual, RAPID data types, tooldata and loaddata
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from typing import Final

import numpy as np

from mindyn.foundation.algebra.inertia import check_consistency
from mindyn.foundation.algebra.rotations import quaternion_from_rotation, rpy_from_rotation
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.atomic_files import write_file_atomically
from mindyn.foundation.errors import Code, ExportError, InputError, require_choice
from mindyn.foundation.notation import LINK_PARAMETERS
from mindyn.identification.runs_with_loads import Payload

DIGITS: Final = 9
"""Significant digits of a written number."""
UR_MAX_INERTIA: Final = 133.0
"""Largest magnitude of an entry of the inertia in URScript, kg m^2 (Script manual, set_target_payload)."""
LARGEST_SINGLE: Final = 3.4e38
SMALLEST_SINGLE: Final = 1.2e-38
"""Range of REAL (KUKA) and num (ABB), single precision."""
KUKA_TOOLS: Final = 16
"""Number of LOAD_DATA entries of a KUKA controller with its delivered $config.dat."""
RAPID_NAME_LENGTH: Final = 32
FRANKA_DESK_SUFFIX: Final = ".json"
"""Suffix of the file that Franka's Desk reads; every other file gets the C++ of `setLoad`."""
_RAPID_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_FUNCTION_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FRANKA_ID: Final = re.compile(r"(?!ee-)[A-Za-z0-9._~-]+")


@dataclass(frozen=True, slots=True)
class PrincipalInertia:
    """Inertia as controllers take it that have no products of inertia.

    moments   (3,) about the centre of mass, kg m^2
    rotation  (3, 3), its columns are the principal axes in the frame of the load: J = rotation diag(moments) rotation^T
    """

    moments: Array
    rotation: Array


def principal_inertia(tensor: Array) -> PrincipalInertia:
    """Return principal moments, with the order and signs of the axes that are nearest to those of the frame."""
    if not np.any(tensor - np.diag(np.diag(tensor))):
        return PrincipalInertia(np.diag(tensor), np.eye(3))
    values, vectors = np.linalg.eigh(tensor)
    candidates = []
    for order in permutations(range(3)):
        for signs in product((1.0, -1.0), repeat=3):
            axes = vectors[:, order] * np.array(signs)
            if np.linalg.det(axes) > 0:
                candidates.append((float(axes.trace()), order, axes))
    _, order, axes = max(candidates, key=lambda candidate: candidate[0])
    return PrincipalInertia(values[list(order)], axes)


def write_payload(load: Payload, path: str | Path, controller: str, *, name: str | None = None) -> Path:
    """Write a payload as a file for a robot controller.

    Parameters
    ----------
    load : Payload
        The payload in the frame of the flange (`Payload.in_frame`); for ABB, in the wrist coordinate system.
    path : str or Path
        File to write. For "franka", a `.json` file is the configuration of an end effector that Desk reads; every other
        file is a C++ header with the arguments of `setLoad`.
    controller : {"ur", "franka", "kuka", "abb", "json"}
        Format.
    name : str, optional
        Name of the function (ur), of the constants or end effector (franka) or of the data (abb), or number of the tool
        (kuka).

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If the controller is unknown, or the name is not valid for it.
    ExportError
        If the format cannot hold the values, the log does not determine the mass, or no body has such values.
    """
    target = Path(path)
    is_desk = controller == "franka" and target.suffix == FRANKA_DESK_SUFFIX
    write_file_atomically(target, format_payload(load, controller, name=name, desk=is_desk))
    return target


def format_payload(load: Payload, controller: str, *, name: str | None = None, desk: bool = False) -> str:
    """Return the text of `write_payload`; `desk` selects the JSON of Franka's Desk."""
    require_choice(controller, CONTROLLERS, "controller")
    require_writable_payload(load)
    if controller == "franka" and desk:
        return _format_desk(load, name or "payload")
    default, write = CONTROLLERS[controller]
    return write(load, name or default)


def require_writable_payload(load: Payload) -> None:
    """Raise `ExportError` for a payload that no controller should get."""
    if not np.isfinite(load.phi).all():
        raise ExportError("the payload has values that are not finite", code=Code.NOT_FINITE, subject="payload")
    if not load.is_feasible:
        raise ExportError(
            "the log contradicts the estimate: no payload has these values",
            hint="check that the estimate is of this arm, with the same drive gains and zero positions",
            code=Code.NOT_FEASIBLE,
            subject="payload",
        )
    if load.mass <= 0 or "m" in load.unidentifiable:
        raise ExportError(
            "the log does not determine the mass of the payload",
            hint="record a motion that lifts it with every joint that carries weight",
            code=Code.NOT_IDENTIFIABLE,
            subject="mass",
        )
    verdict = check_consistency(load.phi)
    if not verdict.is_feasible:
        message = f"no body has the mass, centre and inertia of the payload: {verdict.reason}"
        raise ExportError(message, code=Code.NOT_FEASIBLE, subject="payload")


def _number(value: float) -> str:
    """Return a number without exponent, which not every controller language reads."""
    return np.format_float_positional(float(value) + 0.0, DIGITS, unique=False, fractional=False, trim="-")


def _numbers(values: Array) -> str:
    return ", ".join(map(_number, np.ravel(values)))


def _require_name(name: str, pattern: re.Pattern[str], what: str) -> None:
    if not pattern.fullmatch(name):
        raise InputError(f"{name!r} is not a valid {what}", code=Code.INVALID_VALUE, subject=name)


def _require_single_precision(load: Payload, values: Array, controller: str) -> None:
    """Raise `ExportError` for numbers outside single precision."""
    sizes = np.abs(values[values != 0])
    if sizes.size and (sizes.max() > LARGEST_SINGLE or sizes.min() < SMALLEST_SINGLE):
        raise ExportError(
            f"{controller} stores numbers in single precision, which cannot hold those of the payload",
            hint=f"the payload in frame {load.link} has a mass of {load.mass:.3g} kg",
            code=Code.OUT_OF_RANGE,
            subject=controller,
        )


def _describe(load: Payload) -> list[str]:
    """Return the conventions of a file, for its comment."""
    low, high = load.mass_interval
    interval = f", 95 % interval {low:.4g} to {high:.4g} kg" if np.isfinite([low, high]).all() else ""
    lines = [
        "Payload identified by mindyn.",
        f"Frame: origin and axes of '{load.link}'; the controller takes it as the flange frame.",
        "Inertia about the centre of mass.",
        f"Mass {load.mass:.4g} kg{interval}.",
    ]
    if load.unidentifiable:
        names = ", ".join(load.unidentifiable)
        lines.append(f"The log does not determine {names}: the values are physically consistent, not measured.")
    return lines


def _comment(load: Payload, lead: str, *conventions: str) -> str:
    printable = (line.encode("ascii", "replace").decode() for line in (*_describe(load), *conventions))
    return "".join(f"{lead} {line}\n" for line in printable)


def ur_call(load: Payload) -> str:
    """Return the call of URScript that sets the payload."""
    J = load.inertia_about_centre
    entries = np.array([J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]])
    if np.abs(entries).max() > UR_MAX_INERTIA:
        raise ExportError(
            f"URScript takes entries of the inertia up to {UR_MAX_INERTIA:g} kg m^2, "
            f"the payload has {np.abs(entries).max():.4g} kg m^2",
            hint="check the unit of the torques and the frame of the payload",
            code=Code.OUT_OF_RANGE,
            subject="inertia",
        )
    return f"set_target_payload({_number(load.mass)}, [{_numbers(load.centre)}], [{_numbers(entries)}])"


def franka_call(load: Payload) -> str:
    """Return the call of libfranka that sets the load."""
    centre, inertia = _numbers(load.centre), _numbers(load.inertia_about_centre.T)
    return f"setLoad({_number(load.mass)}, {{{centre}}}, {{{inertia}}})"


def kuka_entry(load: Payload, number: str = "n") -> str:
    """Return the entry of LOAD_DATA in $config.dat."""
    principal = principal_inertia(load.inertia_about_centre)
    roll, pitch, yaw = np.degrees(rpy_from_rotation(principal.rotation))
    centre = 1e3 * load.centre
    _require_single_precision(load, np.array([load.mass, *centre, *principal.moments]), "KRL")
    places = zip("XYZABC", (*centre, yaw, pitch, roll), strict=True)
    frame = ",".join(f"{key} {_number(value)}" for key, value in places)
    moments = ",".join(f"{key} {_number(value)}" for key, value in zip("XYZ", principal.moments, strict=True))
    return f"LOAD_DATA[{number}]={{M {_number(load.mass)},CM {{{frame}}},J {{{moments}}}}}"


def abb_loaddata(load: Payload) -> str:
    """Return the aggregate of RAPID's data type loaddata."""
    principal = principal_inertia(load.inertia_about_centre)
    centre, axes = 1e3 * load.centre, quaternion_from_rotation(principal.rotation)
    _require_single_precision(load, np.array([load.mass, *centre, *principal.moments]), "RAPID")
    return f"[{_number(load.mass)}, [{_numbers(centre)}], [{_numbers(axes)}], {_numbers(principal.moments)}]"


def _format_ur(load: Payload, name: str) -> str:
    _require_name(name, _FUNCTION_NAME, "name of a URScript function")
    conventions = (
        "Units: kg, m from the tool flange, kg m^2 [Ixx, Iyy, Izz, Ixy, Ixz, Iyz] along the axes of the flange.",
        "Setting the payload also zeroes the force/torque sensor.",
    )
    return f"{_comment(load, '#', *conventions)}def {name}():\n  {ur_call(load)}\nend\n"


def _format_franka(load: Payload, name: str) -> str:
    _require_name(name, _FUNCTION_NAME, "name of a C++ namespace")
    conventions = (
        "Units: kg, m from the flange, kg m^2 column by column (libfranka, Robot::setLoad).",
        "setLoad is for what the end effector carries; the end effector itself is set in Desk (write a .json file).",
        f"robot.setLoad({name}::mass, {name}::F_x_Cload, {name}::inertia);",
    )
    return (
        f"{_comment(load, '//', *conventions)}#pragma once\n\n#include <array>\n\nnamespace {name} {{\n"
        f"constexpr double mass = {_number(load.mass)};\n"
        f"constexpr std::array<double, 3> F_x_Cload{{{{{_numbers(load.centre)}}}}};\n"
        f"constexpr std::array<double, 9> inertia{{{{{_numbers(load.inertia_about_centre.T)}}}}};\n"
        f"}}  // namespace {name}\n"
    )


def _format_desk(load: Payload, name: str) -> str:
    """Return endeffector-config.json of an end effector archive; JSON has no comments, so `name` states the frame."""
    _require_name(name, _FRANKA_ID, "id of an end effector: letters, digits, . _ ~ -, and no ee- at the start")
    config = {
        "id": name,
        "name": f"{name} (mindyn; kg, m, kg m^2 about the centre; frame {load.link})",
        "color": "#888888",
        "mass": load.mass,
        "centerOfMass": load.centre.tolist(),
        "transformation": np.eye(4).ravel().tolist(),
        "inertia": load.inertia_about_centre.T.ravel().tolist(),
    }
    return json.dumps(config, indent=1) + "\n"


def _format_kuka(load: Payload, name: str) -> str:
    if not (name.isascii() and name.isdigit() and 1 <= int(name) <= KUKA_TOOLS):
        message = f"the number of a KUKA tool must be between 1 and {KUKA_TOOLS}, got {name!r}"
        raise InputError(message, hint="such as --name 1", code=Code.OUT_OF_RANGE, subject=name)
    conventions = (
        "Units: kg, mm from the flange, degrees, kg m^2.",
        "A, B, C rotate the flange axes onto the principal axes of the inertia: about Z, the new Y, the new X.",
        "Replace the line of this tool in $config.dat.",
    )
    return f"{_comment(load, ';', *conventions)}{kuka_entry(load, str(int(name)))}\n"


def _format_abb(load: Payload, name: str) -> str:
    _require_name(name, _RAPID_NAME, "RAPID name: letters, digits and underscores, a letter first")
    if len(name) > RAPID_NAME_LENGTH - len("_load"):
        message = f"a RAPID name has at most {RAPID_NAME_LENGTH} characters, {name!r} and _load have more"
        raise InputError(message, code=Code.TOO_LARGE, subject=name)
    conventions = (
        "Units: kg, mm, quaternion (q1 real) of the principal axes of the inertia, kg m^2.",
        f"{name}: the payload as a tool, in the wrist coordinate system; replace the frame by that of its TCP.",
        f"{name}_load: for GripLoad, valid while the active tool has the frame of tool0.",
    )
    data = abb_loaddata(load)
    return (
        f"{_comment(load, '!', *conventions)}"
        f"PERS tooldata {name} := [TRUE, [[0, 0, 0], [1, 0, 0, 0]], {data}];\nPERS loaddata {name}_load := {data};\n"
    )


def _format_json(load: Payload, name: str) -> str:
    values = {
        "name": name,
        "frame": load.link,
        "conventions": "SI units; centre and axes in the frame; inertia about the centre of mass; 95 % half-widths",
        "mass": load.mass,
        "mass_interval": _finite(np.array(load.mass_interval)),
        "centre": load.centre.tolist(),
        "centre_half_widths": _finite(load.centre_half_widths),
        "inertia_about_centre": load.inertia_about_centre.tolist(),
        "inertia_half_widths": _finite(load.inertia_half_widths),
        "phi": dict(zip(LINK_PARAMETERS, load.phi.tolist(), strict=True)),
        "not_identifiable": list(load.unidentifiable),
    }
    return json.dumps(values, indent=1) + "\n"


def _finite(values: Array) -> list[float] | list[list[float]] | None:
    """Return an array as lists for JSON; None if a number is unknown (not finite)."""
    return values.tolist() if np.isfinite(values).all() else None


CONTROLLERS: Final[Mapping[str, tuple[str, Callable[[Payload, str], str]]]] = {
    "ur": ("set_payload_of_mindyn", _format_ur),
    "franka": ("payload", _format_franka),
    "kuka": ("1", _format_kuka),
    "abb": ("payload", _format_abb),
    "json": ("payload", _format_json),
}
"""Default name and writer of each format."""
