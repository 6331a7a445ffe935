"""A value of any wrong type for any key of any schema gives a mindyn error or success, never another exception."""

from __future__ import annotations

import json
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wrong_values import toml_text, wrong_tables

import mindyn
from mindyn.cli import limits_file
from mindyn.foundation.errors import MindynError
from mindyn.foundation.schemas import find_violations
from mindyn.logs.conditioning import CONDITIONING_SCHEMA
from mindyn.logs.metadata import SIDECAR_SCHEMA as SIDECAR_SCHEMA
from mindyn.motions.excitation.limits import LIMITS, MotionLimits
from mindyn.motions.excitation.motions import MOTION, Motion, run_of
from mindyn.regression.friction import FRICTION
from mindyn.regression.settings import SETTINGS_SCHEMA

sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))
from hostile_logs import ARRAYS, SIDECAR, arrays, csv_text

ARM = mindyn.load_robot("planar2")


def find_escaped(cases: Iterable[tuple[str, Any]], use: Callable[[Any], object]) -> list[str]:
    """Return the cases that end in anything but success or a mindyn error with a message of readable length."""
    escaped = []
    for name, value in cases:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                use(value)
        except MindynError as error:
            if len(str(error)) > 8000:
                escaped.append(f"{name}: a message of {len(str(error))} characters")
        except Exception as error:
            escaped.append(f"{name}: {type(error).__name__} {error}")
    return escaped


MOTORS = SIDECAR.replace('"joint"', '"motor"').replace("N m", "A") + "gears = [2, 3]\ncurrent_gains = [1, 1]\n"


@pytest.mark.parametrize(("file", "text"), [("log.csv", SIDECAR), ("log.csv", MOTORS), ("log.npz", ARRAYS)])
def test_wrong_sidecars_raise_no_other_exception(tmp_path, file, text):
    path = tmp_path / file
    if file.endswith("csv"):
        path.write_text(csv_text(40))
    else:
        np.savez(path, **arrays(40))
    cases = wrong_tables(tomllib.loads(text), SIDECAR_SCHEMA)
    assert find_escaped(cases, lambda stated: mindyn.read_log(path, ARM, metadata=stated)) == []


@pytest.mark.parametrize(
    ("schema", "good", "use"),
    [
        (CONDITIONING_SCHEMA, mindyn.Conditioning().to_dict(), mindyn.Conditioning.from_dict),
        (CONDITIONING_SCHEMA, {}, lambda given: mindyn.Conditioning(**given)),
        (FRICTION, mindyn.Friction().to_dict(), mindyn.Friction.from_dict),
        (SETTINGS_SCHEMA, mindyn.EquationSettings().to_dict(), mindyn.EquationSettings.from_dict),
        (SETTINGS_SCHEMA, {}, lambda given: mindyn.EquationSettings(**given)),
    ],
)
def test_wrong_settings_raise_no_other_exception(schema, good, use):
    unknown = {**good, "nonsense": 5}
    assert find_escaped((case for case in wrong_tables(good, schema) if case[1] != unknown), use) == []


def test_wrong_limits_raise_no_other_exception():
    good = {"velocity": {"joint1": 2.0, "joint2": 2.0}, "effort": [10.0, 10.0], "lower": -1.0, "upper": 1.0}
    cases = [*wrong_tables(good, LIMITS)]
    assert find_escaped(cases, lambda given: MotionLimits.from_dict(ARM, given)) == []
    mild = (case for case in cases if "nonsense" not in case[1])
    assert find_escaped(mild, lambda given: MotionLimits.of(ARM, **given)) == []


def test_wrong_files_of_limits_raise_no_other_exception(tmp_path):
    """Check the whole file, including its obstacles and workspace; no motion is designed."""
    good = {"noise": 0.1, "obstacles": [{"a": [1.0, 1.0, 1.0], "radius": 0.1}], "workspace": {"floor": -1.0}}

    def use(given: dict[str, Any]) -> None:
        path = tmp_path / "limits.toml"
        path.write_text(toml_text(given))
        limits_file.read_limits_file(path, ARM)

    assert find_escaped(wrong_tables(good, limits_file.limits_file_schema()), use) == []


def test_wrong_motions_raise_no_other_exception():
    family = mindyn.Fourier(2)
    motion = Motion(family, 8.0, np.zeros(2), np.ones((family.count, 2)))
    good = {
        "joints": ["joint1", "joint2"],
        "seconds": motion.seconds,
        "start": motion.start.tolist(),
        "family": family.to_dict(),
        "coefficients": motion.coefficients.tolist(),
        "approach": {"places": [[0.0, 0.0], [1.0, 1.0]], "seconds": [1.0]},
    }
    kinds = {"type": "object", "properties": {key: {} for key in family.to_dict()}}
    schema = {**MOTION, "properties": {**MOTION["properties"], "family": kinds}}
    assert (
        find_escaped(wrong_tables(good, schema), lambda given: run_of(given, "x.json").rows(np.linspace(0, 8, 5))) == []
    )


def test_the_checker_agrees_with_jsonschema():
    """Compare on every wrong sidecar and every wrong setting."""
    jsonschema = pytest.importorskip("jsonschema")
    for schema, good in (
        (SIDECAR_SCHEMA, tomllib.loads(SIDECAR)),
        (CONDITIONING_SCHEMA, {}),
        (FRICTION, {"width": 1.0}),
    ):
        plain = json.loads(json.dumps(schema))
        jsonschema.Draft202012Validator.check_schema(plain)
        oracle = jsonschema.Draft202012Validator(plain)
        for name, value in wrong_tables(good, schema):
            # JSON has no such numbers, or they count as integers.
            if not any(text in name for text in ("1000000", "nan", "inf", "1e+300", " 0.0")):
                assert oracle.is_valid(value) == (not list(find_violations(value, schema, "x"))), name
