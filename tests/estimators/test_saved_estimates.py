"""A saved estimate is read back or refused; nothing in between, whatever was done to the file."""

from __future__ import annotations

import copy
import json
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from mindyn.errors import InputError, MindynError
from mindyn.estimators.estimate import load_estimate
from mindyn.estimators.estimate_files import brought_up, schema, violations

EARLIER = Path(__file__).with_name("estimate_of_format_1.json")


@pytest.fixture(scope="module")
def saved() -> dict:
    return load_estimate(EARLIER).to_dict()


def refused(tmp_path, values) -> str:
    (tmp_path / "estimate.json").write_text(json.dumps(values))
    with pytest.raises(InputError) as error:
        load_estimate(tmp_path / "estimate.json")
    return str(error.value)


def test_what_is_saved_follows_the_published_schema(saved):
    assert not list(violations(saved, schema(), ""))
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.Draft202012Validator(schema()).validate(saved)


CHANGES = {
    "beta of infinity": (("beta", 0), float("inf"), r"beta\[0\] must be number"),
    "beta of NaN": (("beta", 0), float("nan"), r"beta\[0\] must be number"),
    "beta of text": (("beta", 0), "1.0", r"beta\[0\] must be number"),
    "beta of truth": (("beta", 0), True, r"beta\[0\] must be number"),
    "no beta": (("beta",), [], "beta has 0 values"),
    "covariance of another size": (("covariance",), [[1.0]], "covariance must be"),
    "covariance with a short row": (("covariance", 1), [1.0], "covariance must be"),
    "negative variance": (("covariance", 0, 0), -1.0, "is negative"),
    "names that are numbers": (("names", 0), 5, r"names\[0\] must be string"),
    "residuals that are text": (("residuals",), "none", "residuals must be array"),
    "negative residual": (("residuals", 0, "rms"), -1.0, "must be at least 0"),
    "a parameter that is none left out": (("left_out",), ["nothing"], "which is no parameter"),
    "weights of too few joints": (("joint_weights",), [1.0], "joint_weights has 1"),
    "shifts of another length": (("shifts",), [[1.0]], "rows of shifts"),
    "a robot that is a list": (("robot",), [], "robot must be object"),
    "no treatment": (("treatment",), None, "treatment must be object"),
    "a later format": (("format",), "mindyn estimate 99", "a later version of mindyn wrote it"),
    "a format that is a list": (("format",), [1], "not an estimate of mindyn"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_unsound_content_is_refused_with_its_place(tmp_path, saved, name):
    (*way, last), value, says = CHANGES[name]
    changed = copy.deepcopy(saved)
    part = changed
    for key in way:
        part = part[key]
    part[last] = value
    assert re.search(says, refused(tmp_path, changed))


@pytest.mark.parametrize("key", ["robot", "base", "names", "beta", "covariance", "residuals", "treatment", "physical"])
def test_a_missing_entry_is_named(tmp_path, saved, key):
    assert f"has no entry {key!r}" in refused(tmp_path, {name: value for name, value in saved.items() if name != key})


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_changed_is_read_or_refused(tmp_path, saved, seed):
    rng = np.random.default_rng(seed)
    changed = copy.deepcopy(saved)
    for _ in range(rng.integers(1, 4)):
        part = changed
        while True:
            keys = list(part) if isinstance(part, dict) else list(range(len(part)))
            if not keys:
                break
            key = keys[rng.integers(len(keys))]
            if isinstance(part[key], dict | list) and part[key] and rng.random() < 0.8:
                part = part[key]
                continue
            part[key] = [None, -1, 1e300, "x", [], {}, [[]], True, "\n", 2**70][rng.integers(10)]
            break
    (tmp_path / "estimate.json").write_text(json.dumps(changed))
    with suppress(MindynError):
        load_estimate(tmp_path / "estimate.json")


def test_nested_brackets_and_large_files_are_refused(tmp_path):
    path = tmp_path / "estimate.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deep"):
        load_estimate(path)
    with path.open("wb") as file:
        file.truncate(2**29)
    with pytest.raises(InputError, match="MINDYN_LIMITS=off"):
        load_estimate(path)


def test_other_names_than_those_of_the_robot_are_refused(tmp_path, saved):
    """In another order the values would be those of other parameters."""
    names = [saved["names"][1], saved["names"][0], *saved["names"][2:]]
    assert "names other parameters" in refused(tmp_path, saved | {"names": names})


@pytest.mark.parametrize(("drives", "said"), [(True, "estimated"), (False, "stated")])
def test_an_earlier_file_says_which_drives_were_fitted(drives, said):
    values = json.loads(EARLIER.read_text())
    assert brought_up(values | {"drives": drives})["treatment"]["drives"] == said


def test_an_earlier_file_that_says_nothing_of_decimation_has_every_row():
    values = json.loads(EARLIER.read_text())
    assert brought_up(values)["treatment"]["decimation"] == 2
    silent = {name: value for name, value in values["provenance"].items() if name != "decimation"}
    assert brought_up(values | {"provenance": silent})["treatment"]["decimation"] == 1
