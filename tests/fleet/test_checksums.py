"""A changed byte in a factor file or generation raises an error that names the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fleets import ARM, SETTINGS, SIDECAR, log_bytes
from raising import raises

from mindyn.applications.fleet.factor_files import FactorStore, Generation, read_generation
from mindyn.applications.fleet.study_fleet import study_fleet
from mindyn.foundation.errors import Code, InputError


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Logs of two robots, and the folder of a study of them."""
    folder, out = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("out")
    (folder / "logs.toml").write_text(SIDECAR)
    for k in range(2):
        (folder / f"arm{k}").mkdir()
        (folder / f"arm{k}" / "run.parquet").write_bytes(log_bytes((k, 0)))
    study(folder, out)
    return folder, out


def study(folder: Path, out: Path, settings=SETTINGS):
    return study_fleet(ARM, f"{folder}/{{robot_id}}/*.parquet", out, settings=settings)


def test_every_changed_byte_of_a_factor_file_is_detected(fleet):
    _, out = fleet
    generation = read_generation(out, ARM)
    assert isinstance(generation, Generation)
    store = FactorStore(out, generation, ARM)
    path = store.paths()[0]
    factor = store.read(path)
    good, rng = path.read_bytes(), np.random.default_rng(0)
    for at in [0, len(good) - 1, *rng.integers(0, len(good), 40)]:
        changed = bytearray(good)
        changed[at] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        with raises(InputError, Code.UNREADABLE, str(path)):
            store.read(path)
    for cut in (0, 10, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:cut])
        with raises(InputError, Code.UNREADABLE, str(path)):
            store.read(path)
    path.write_bytes(good)
    assert all((a == b).all() for a, b in zip(store.read(path).factors, factor.factors, strict=True))


def test_a_study_names_a_changed_factor_file_and_continues_without_it(fleet):
    folder, out = fleet
    path = next((out / "factors").glob("*/??/*.npz"))
    good = path.read_bytes()
    path.write_bytes(good[:-40] + bytes([good[-40] ^ 255]) + good[-39:])
    with raises(InputError, Code.UNREADABLE, str(path)):
        study(folder, out)
    assert path.exists()
    path.unlink()
    assert study(folder, out).gathered == 1
    assert path.read_bytes() == good


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reference", [1.0]),
        ("reference", "text"),
        ("settings", {"keep_every": ""}),
        ("completed", {}),
        ("names", 5),
        ("sha256", "0"),
    ],
)
def test_a_changed_generation_is_named(fleet, key, value):
    folder, out = fleet
    path = next((out / "factors").glob("*/generation.json"))
    good = path.read_text()
    try:
        path.write_text(json.dumps(json.loads(good) | {key: value}))
        with raises(InputError, (Code.INVALID_VALUE, Code.MISSING_VALUE, Code.UNREADABLE)) as raised:
            study(folder, out, settings=None)
        assert "generation.json" in raised.value.message
    finally:
        path.write_text(good)


@pytest.mark.parametrize("value", [5, None, "../..", [], "\0", "x" * 5000])
def test_a_changed_pointer_is_named(fleet, value):
    folder, out = fleet
    path = out / "fleet.json"
    good = path.read_text()
    try:
        path.write_text(json.dumps({"generation": value}))
        with raises(InputError, Code.INVALID_VALUE, f"{path}: generation"):
            study(folder, out, settings=None)
    finally:
        path.write_text(good)
