"""Factor files: R factors of each log on disk, so that no log is read twice and any log can be excluded later.

    DIR/factors/GENERATION/generation.json   settings, reference values and everything else the factors depend on
    DIR/factors/GENERATION/ab/PLACE-VERSION.npz   one log: R factors and metadata

GENERATION is the hash of everything a factor depends on besides its log: robot, settings, base set, reference values
and the version of this format. PLACE and VERSION are hashes of the name of the log and of its version in its store. A
file is written under another name and then moved, so that it is complete or absent; each log has one file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import numpy as np

from mindyn.applications.fleet.fleet_causes import ZeroRegressor
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.atomic_files import make_folder, write_file_atomically
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.safe_reading import describe_exception, read_json
from mindyn.foundation.schemas import ANY_NUMBER, ANY_TEXT, list_schema, require_valid_file, table_schema
from mindyn.identification.estimators.estimate_files import robot_from_record, robot_record
from mindyn.regression.information import Information
from mindyn.regression.settings import SETTINGS_SCHEMA, EquationSettings
from mindyn.robots.robot import Robot

FACTOR_FORMAT: Final = 5
"""Version of factor files; a change of their content starts a new generation."""
CHECKSUM_BYTES: Final = 32
"""Length of the SHA-256 at the end of a factor file."""
_DELETE_HINT: Final = "delete the file and run again; its logs are then read again"
GENERATION_SCHEMA: Final = table_schema(
    {
        "format": {"type": "integer"},
        "robot": ANY_TEXT,
        "completed": {"type": "object"},
        "settings": SETTINGS_SCHEMA,
        "reference": list_schema(ANY_NUMBER),
        "names": list_schema(ANY_TEXT),
        "sha256": ANY_TEXT,
    }
)
"""JSON Schema of generation.json; sha256 is the hash of the other entries."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """R factors and metadata of one log.

    name         path or URL, without credentials
    version      identifies the bytes at the time of reading (see `Listed`)
    content      hash of the bytes, or the etag of the store
    fields       values from its path and its constant columns: robot, date, ...
    day          days since 1970; None if the date is unknown
    rows         number of samples
    factors      R of [Y | zeros | tau] for each joint
    counts       rows of each joint
    """

    name: str
    version: str
    content: str
    fields: Mapping[str, str]
    day: float | None
    rows: int
    factors: tuple[Array, ...]
    counts: tuple[int, ...]

    def information(self, regressor: ZeroRegressor) -> Information:
        """Return the R factors as information of the columns of the regressor."""
        return Information(regressor.joint_names, regressor.names, regressor.columns, self.factors, self.counts)

    def to_bytes(self) -> bytes:
        """Return the content of the file: triangles without their zeros, then their SHA-256."""
        known = {name: getattr(self, name) for name in _RECORDED_FIELDS}
        packed: dict[str, Any] = {f"R{k}": R[np.triu_indices(len(R))] for k, R in enumerate(self.factors)}
        file = BytesIO()
        np.savez(file, known=np.frombuffer(json.dumps(known).encode(), dtype=np.uint8), **packed)
        return file.getvalue() + hashlib.sha256(file.getvalue()).digest()

    @staticmethod
    def from_file(path: Path) -> Factor:
        """Read a factor file, or raise `InputError` if its checksum is wrong."""
        content = path.read_bytes()
        if hashlib.sha256(content[:-CHECKSUM_BYTES]).digest() != content[-CHECKSUM_BYTES:]:
            raise _file_error(f"the factor file {path} was changed or damaged: its checksum differs", path)
        with np.load(BytesIO(content[:-CHECKSUM_BYTES]), allow_pickle=False) as arrays:
            known = json.loads(arrays["known"].tobytes())
            factors = tuple(_unpack_triangle(arrays[f"R{k}"]) for k in range(len(known["counts"])))
        return Factor(**{**known, "counts": tuple(known["counts"])}, factors=factors)


_RECORDED_FIELDS: Final = tuple(entry.name for entry in fields(Factor) if entry.name != "factors")


def _unpack_triangle(packed: Array) -> Array:
    size = int((np.sqrt(8 * len(packed) + 1) - 1) / 2)
    R = np.zeros((size, size))
    R[np.triu_indices(size)] = packed
    return R


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """Robot, settings and reference values that determine the factor files, together with the logs.

    robot      robot with all drives whose parameters are columns
    settings   how logs become equations, without any "auto"
    reference  (p,) values at which the columns of the zeros are evaluated
    """

    robot: Robot
    settings: EquationSettings
    reference: Array

    @property
    def regressor(self) -> ZeroRegressor:
        """Return the regressor."""
        return ZeroRegressor(self.robot, self.settings, self.reference)

    def name(self, regressor: ZeroRegressor) -> str:
        """Return the hash of the generation."""
        text = json.dumps(
            [FACTOR_FORMAT, robot_record(self.robot), self.settings.to_dict(), regressor.names], default=str
        )
        numbers = [self.reference.tobytes(), regressor.base.matrix.tobytes()]
        return hashlib.sha256(b"\0".join([text.encode(), *numbers])).hexdigest()[:20]


class FactorStore:
    """Factor files of one generation in a folder."""

    def __init__(self, out: Path, generation: Generation, robot: Robot) -> None:
        self.generation = generation
        self.regressor = generation.regressor
        self.folder = out / "factors" / generation.name(self.regressor)
        make_folder(self.folder)
        about = self.folder / "generation.json"
        if not about.exists():
            record = {
                "format": FACTOR_FORMAT,
                "robot": robot_hash(robot),
                "completed": robot_record(generation.robot),
                "settings": generation.settings.to_dict(),
                "reference": generation.reference.tolist(),
                "names": list(self.regressor.names),
            }
            write_file_atomically(about, json.dumps(record | {"sha256": _record_hash(record)}, indent=1) + "\n")

    def path(self, name: str, version: str) -> Path:
        """Return the path of the file of a log."""
        place, bytes_of = (hashlib.sha256(text.encode()).hexdigest() for text in (name, version))
        return self.folder / place[:2] / f"{place[:24]}-{bytes_of[:16]}.npz"

    def write(self, factor: Factor) -> None:
        """Write the file of a log, then remove those of its earlier versions."""
        path = self.path(factor.name, factor.version)
        make_folder(path.parent)
        write_file_atomically(path, factor.to_bytes())
        for other in path.parent.glob(f"{path.name[:24]}-*.npz"):
            if other != path:
                other.unlink(missing_ok=True)

    def paths(self) -> list[Path]:
        """Return the file of each log; of two versions, the one written last."""
        files = sorted(self.folder.glob("??/*.npz"), key=lambda file: (file.stat().st_mtime_ns, file.name))
        return sorted({path.name[:24]: path for path in files}.values())

    def read(self, path: Path) -> Factor:
        """Read one factor, or raise `InputError` if the file was changed or damaged."""
        try:
            factor = Factor.from_file(path)
        except (OSError, ValueError, KeyError, TypeError, BadZipFile, EOFError) as error:
            raise _file_error(f"the factor file {path} cannot be read: {describe_exception(error)}", path) from error
        widths = [len(columns) + 1 for columns in self.regressor.columns]
        if [len(R) for R in factor.factors] != widths or not all(np.isfinite(R).all() for R in factor.factors):
            message = f"the factor file {path} has other parameters than its generation"
            raise _file_error(message, path, Code.DISAGREEMENT)
        return factor


def _file_error(message: str, path: Path, code: Code = Code.UNREADABLE) -> InputError:
    return InputError(message, hint=_DELETE_HINT, code=code, subject=path)


def _record_hash(record: Mapping[str, Any]) -> str:
    text = json.dumps({key: value for key, value in record.items() if key != "sha256"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def robot_hash(robot: Robot) -> str:
    """Return the hash of all data of a robot file."""
    return hashlib.sha256(json.dumps(robot_record(robot), default=str).encode()).hexdigest()


def read_generation(out: Path, robot: Robot) -> Generation | None:
    """Return the generation of the last run in a folder, or None if robot or format differ."""
    pointer = out / "fleet.json"
    if not pointer.exists():
        return None
    known = read_json(pointer, "record of a fleet", InputError)
    require_valid_file(
        known, {"properties": {"generation": {"type": "string", "pattern": "^([0-9a-f]{20})$"}}}, str(pointer)
    )
    about = out / "factors" / known.get("generation", "none") / "generation.json"
    if not about.exists():
        return None
    record = read_json(about, "record of a generation", InputError)
    if record.get("format") != FACTOR_FORMAT:
        return None
    require_valid_file(record, GENERATION_SCHEMA, str(about), hint=_DELETE_HINT)
    if record["sha256"] != _record_hash(record):
        raise _file_error(f"{about} was changed or damaged: its checksum differs", about)
    if record["robot"] != robot_hash(robot):
        return None
    return Generation(
        robot_from_record(record["completed"]),
        EquationSettings.from_dict(record["settings"]),
        np.array(record["reference"]),
    )
