"""Manifests of the recorded sets, and the recipe that makes a folder for `mindyn compare --logs` from them.

    python -m leaderboard.sets FOLDER [--from DOWNLOADS]

Each file is taken from a local folder (`--from`, default: MINDYN_REAL_DATA) if it is there, and downloaded otherwise.
Its SHA-256 must be that of the manifest; nothing is written from a file that differs. A file with `cut` is a text table
whose rows from `start_s` on become a Parquet table; its SHA-256 is that of the numbers (binary64, row by row).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import sys
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import polars as pl

ROOT = Path(__file__).parent
MAX_BYTES = 200_000_000
RAW_ADDRESS = "https://raw.githubusercontent.com/{owner}/{commit}/{path}"
Manifest = Mapping[str, Any]


class RecipeError(Exception):
    """A file of a set is missing or is not the file of the manifest."""


def read_manifests(names: Sequence[str] = ()) -> dict[str, Manifest]:
    """Return the manifests of the named sets, or of all."""
    paths = {path.stem: path for path in sorted((ROOT / "sets").glob("*.toml"))}
    if unknown := set(names) - set(paths):
        raise RecipeError(f"no set {', '.join(sorted(unknown))}; the sets are: {', '.join(paths)}")
    return {name: tomllib.loads(paths[name].read_text(encoding="utf-8")) for name in names or paths}


def prepare(
    folder: Path,
    names: Sequence[str] = (),
    local: Path | None = None,
    address_of: Callable[[Manifest, Mapping[str, Any]], str] | None = None,
) -> Path:
    """Write the files of the sets, their robots and `splits.json` into `folder`, and return it."""
    manifests = read_manifests(names)
    for name, manifest in manifests.items():
        (folder / name / "model").mkdir(parents=True, exist_ok=True)
        contents = {
            file_name(file): _read_file(name, manifest, file, local, address_of or raw_address)
            for file in manifest["files"]
        }
        for path, content in contents.items():
            (folder / name / path).write_bytes(content)
        if "conversion" in manifest:
            _stack_columns(folder / name, manifest["conversion"], contents)
        if "model" not in manifest["entry"]:
            shutil.copy(ROOT / "robots" / f"{name}.toml", folder / name / "model" / f"{name}.toml")
    entries = {name: {"model": f"model/{name}.toml", **manifest["entry"]} for name, manifest in manifests.items()}
    (folder / "splits.json").write_text(json.dumps({"sets": entries}, indent=1), encoding="utf-8")
    return folder


def file_name(file: Mapping[str, Any]) -> str:
    """Return the name of a file inside the folder of its set."""
    return str(file.get("name", PurePosixPath(file["path"]).name))


def raw_address(manifest: Manifest, file: Mapping[str, Any]) -> str:
    """Return the address of a file at its commit."""
    owner = "/".join(manifest["repository"].rstrip("/").split("/")[-2:])
    commit = file.get("commit", manifest["commit"])
    return RAW_ADDRESS.format(owner=owner, commit=commit, path=urllib.parse.quote(file["path"]))


def _read_file(
    name: str,
    manifest: Manifest,
    file: Mapping[str, Any],
    local: Path | None,
    address_of: Callable[[Manifest, Mapping[str, Any]], str],
) -> bytes:
    path = None if local is None else local / name / file_name(file)
    if path is not None and path.is_file():
        content, origin = path.read_bytes(), str(path)
    elif path is not None and (rebuilt := _unstack_columns(local, name, manifest, file)) is not None:
        content, origin = rebuilt, f"{local}/{name}/{manifest['conversion']['name']}"
    else:
        origin = address_of(manifest, file)
        try:
            with urllib.request.urlopen(origin, timeout=60) as answer:
                content = answer.read(MAX_BYTES + 1)
        except OSError as error:
            raise RecipeError(f"{name}: {origin} cannot be read: {error}") from error
        if "cut" in file:
            content = _cut_rows(f"{name}: {origin}", content, manifest, file["cut"])
    numbers = (
        pl.read_parquet(io.BytesIO(content)).to_numpy(order="c").astype("<f8").tobytes() if "cut" in file else content
    )
    actual = hashlib.sha256(numbers).hexdigest()
    if actual != file["sha256"]:
        raise RecipeError(
            f"{name}: {origin} is not the file of the manifest: {len(content)} bytes with SHA-256 {actual}, expected "
            f"{file['sha256']}; it was changed or truncated"
        )
    return content


def _cut_rows(origin: str, content: bytes, manifest: Manifest, cut: Mapping[str, Any]) -> bytes:
    """Return rows of a text table as Parquet: time, position, velocity and torque of the entry, time from zero."""
    entry = manifest["entry"]
    names = [entry["time"], *(name for key in ("position", "velocity", "torque") for name in entry[key]["columns"])]
    try:
        numbers = np.loadtxt(io.BytesIO(content), delimiter=",", usecols=range(len(names)), ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        raise RecipeError(f"{origin} is not a table of numbers, it was changed or truncated: {error}") from error
    numbers = numbers[numbers[:, 0] >= cut["start_s"]][: cut["rows"]]
    numbers[:, 0] -= cut["start_s"]
    buffer = io.BytesIO()
    pl.DataFrame(dict(zip(names, numbers.T, strict=True))).write_parquet(buffer)
    return buffer.getvalue()


def _stack_columns(folder: Path, conversion: Mapping[str, Any], contents: Mapping[str, bytes]) -> None:
    """Join text files with one number per line into a table; a file with n numbers per row gives n columns."""
    numbers = {key: np.array(contents[file].split(), dtype=float) for key, file in conversion["stack"].items()}
    rows = len(numbers["t"])
    columns: dict[str, Any] = {}
    for key, values in numbers.items():
        table = values.reshape(rows, -1)
        names = [key] if table.shape[1] == 1 else [f"{key}{i + 1}" for i in range(table.shape[1])]
        columns.update(zip(names, table.T, strict=True))
    pl.DataFrame(columns).write_parquet(folder / conversion["name"])


def _unstack_columns(local: Path | None, name: str, manifest: Manifest, file: Mapping[str, Any]) -> bytes | None:
    """Return the text file that was joined into a local table, or None if there is no such table."""
    conversion = manifest.get("conversion")
    table_path = None if local is None or conversion is None else local / name / conversion["name"]
    if conversion is None or table_path is None or not table_path.is_file():
        return None
    keys = [key for key, source in conversion["stack"].items() if source == file_name(file)]
    table = pl.read_parquet(table_path)
    wanted = [column for column in table.columns if column.rstrip("0123456789") in keys]
    return "".join(f"{value:g}\n" for row in table.select(wanted).iter_rows() for value in row).encode()


def main() -> None:
    """Prepare the sets in a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--from", dest="local", type=Path, default=os.environ.get("MINDYN_REAL_DATA"))
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    try:
        prepare(options.folder, options.set, options.local and Path(options.local))
    except RecipeError as error:
        sys.exit(str(error))
    print(f"wrote {options.folder}; run: mindyn compare --logs {options.folder}")


if __name__ == "__main__":
    main()
