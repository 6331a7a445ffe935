"""A saved estimate is read or rejected as a whole, whatever was done to the file."""

from __future__ import annotations

import copy
import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from raising import raises
from tiers import IS_FULL

from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.foundation.schemas import find_violations
from mindyn.identification.estimators.estimate import load_estimate
from mindyn.identification.estimators.estimate_files import schema
from mindyn.identification.estimators.least_squares import LeastSquares
from mindyn.identification.feasibility.check_feasible import check_feasible
from mindyn.identification.feasibility.full_models.full_model import build_full_model
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.regression.build_rows import build_rows
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Drive

SAVED = Path(__file__).with_name("saved_estimate.json")


@pytest.fixture(scope="module")
def saved() -> dict:
    return json.loads(SAVED.read_text())


def load_error(tmp_path, values) -> str:
    (tmp_path / "estimate.json").write_text(json.dumps(values))
    codes = (Code.DISAGREEMENT, Code.INVALID_VALUE, Code.MISSING_VALUE, Code.WRONG_FORMAT)
    with raises(InputError, codes) as error:
        load_estimate(tmp_path / "estimate.json")
    return str(error.value)


def test_saved_estimates_follow_the_published_schema(saved):
    assert load_estimate(SAVED).to_dict() == saved
    assert not list(find_violations(saved, schema(), ""))
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.Draft202012Validator(schema()).validate(saved)


CHANGES = {
    "beta of infinity": (("values", "beta", 0), float("inf"), r"beta\[0\] = .* must be a finite number"),
    "beta of NaN": (("values", "beta", 0), float("nan"), r"beta\[0\] = .* must be a finite number"),
    "beta of text": (("values", "beta", 0), "1.0", r"beta\[0\] = .* must be a finite number"),
    "beta of truth": (("values", "beta", 0), True, r"beta\[0\] = .* must be a finite number"),
    "no beta": (("values", "beta"), [], "beta must have the shape"),
    "covariance of another size": (("uncertainty", "covariance"), [[1.0]], "covariance must have"),
    "covariance with a short row": (("uncertainty", "covariance", 1), [1.0], "covariance must have"),
    "negative variance": (("uncertainty", "covariance", 0, 0), -1.0, "not negative"),
    "names that are numbers": (("names", 0), 5, r"names\[0\] = 5 must be a string"),
    "residuals that are text": (("data", "residuals"), "none", "residuals = 'none' must be a list"),
    "negative residual": (("data", "residuals", 0, "rms"), -1.0, "at least 0"),
    "a parameter that is none left out": (("values", "dropped"), ["nothing"], "which is not a parameter"),
    "weights of too few joints": (("data", "joint_weights"), [1.0], "joint_weights must have the shape"),
    "shifts of another length": (("uncertainty", "shifts"), [[1.0]], "shifts must have the shape"),
    "a robot that is a list": (("robot",), [], r"robot = \[\] must be a table"),
    "no settings": (("data", "settings"), None, "settings = None must be a table"),
    "a later format": (("format",), "mindyn estimate 99", "another version of mindyn wrote it"),
    "a format that is a list": (("format",), [1], "not an estimate of mindyn"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_unsound_content_is_rejected_with_its_place(tmp_path, saved, name):
    (*way, last), value, says = CHANGES[name]
    changed = copy.deepcopy(saved)
    part = changed
    for key in way:
        part = part[key]
    part[last] = value
    assert re.search(says, load_error(tmp_path, changed))


@pytest.mark.parametrize(
    "key",
    ["robot", "base", "names", "values", "values.beta", "uncertainty.covariance", "data.residuals", "data.settings"],
)
def test_a_missing_entry_is_named(tmp_path, saved, key):
    changed, (*way, last) = copy.deepcopy(saved), key.split(".")
    part = changed
    for name in way:
        part = part[name]
    del part[last]
    assert re.search(rf"has no entry '({key}|{last})'", load_error(tmp_path, changed))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_changed_is_read_or_rejected(tmp_path, saved, seed):
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


def test_nested_brackets_and_large_files_are_rejected(tmp_path):
    path = tmp_path / "estimate.json"
    path.write_text("[" * 100_000)
    with raises(InputError, Code.UNSAFE_INPUT, "estimate.json"):
        load_estimate(path)
    with path.open("wb") as file:
        file.truncate(2**29)
    with raises(InputError, Code.TOO_LARGE, "estimate.json"):
        load_estimate(path)


def test_other_names_than_those_of_the_robot_are_rejected(tmp_path, saved):
    """In another order the values would be those of other parameters."""
    names = [saved["names"][1], saved["names"][0], *saved["names"][2:]]
    assert "has other parameters" in load_error(tmp_path, saved | {"names": names})


def numbers(part, way=()):
    """Yield the way to every number of a document."""
    for key, item in part.items() if isinstance(part, dict) else enumerate(part):
        if isinstance(item, dict | list):
            yield from numbers(item, (*way, key))
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield (*way, key)


def change_entry(document, way, value):
    copied = copy.deepcopy(document)
    part = copied
    for key in way[:-1]:
        part = part[key]
    part[way[-1]] = value(part[way[-1]]) if callable(value) else value
    return copied


def require_loads_consistently(path, values) -> bool:
    """Whether it loads; then the exported model must give the predicted torques, and `check` its answers."""
    path.write_text(json.dumps(values))
    try:
        estimate = load_estimate(path)
        full = build_full_model(estimate, friction_at_zero="fitted")
        assert all(answer.sentence for answer in check_feasible(estimate).answers)
    except MindynError:
        return False
    q, qd, qdd = np.random.default_rng(0).normal(size=(3, 20, estimate.robot.joint_count))
    predicted, size = estimate.predict(q, qd, qdd), np.abs(estimate.beta).max()
    tau = compile_model(full, with_drives=True).inverse_dynamics(q, qd, qdd)
    assert np.abs(tau - predicted).max() <= 1e-6 * max(size, np.abs(predicted).max())
    return True


def fit_estimates() -> dict[str, dict]:
    """Estimates of several kinds as their files hold them: by hand, of another base set, with friction of the load."""
    created = {"held to what is physical": json.loads(SAVED.read_text())}
    arm, rng = load_robot("planar2"), np.random.default_rng(1)
    arm = replace(arm, drives=tuple(Drive(name, 1.0, {}, 5.0, 3.0, 4.0, 1.0) for name in arm.joint_names))
    q, qd, qdd = rng.uniform(-1.5, 1.5, (3, 200, 2))
    tau = compile_model(arm, with_drives=True).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.1, q.shape)
    samples = Samples(arm.joint_names, q, qd, qdd, tau, 100.0, np.zeros(len(q), np.int64))
    for name, settings in {
        "plain": EquationSettings(),
        "lin": EquationSettings(base_form="lin", drive_parameters="stated"),
        "numeric": EquationSettings(base_form="numeric"),
        "friction": EquationSettings(friction=Friction("tanh", 0.05, ("asymmetric",))),
    }.items():
        created[name] = json.loads(json.dumps(LeastSquares().fit(build_rows(arm, samples, settings)).to_dict()))
    return created


ESTIMATES = fit_estimates()


@pytest.mark.parametrize("name", ESTIMATES)
def test_a_saved_estimate_loads_consistently(tmp_path, name):
    assert require_loads_consistently(tmp_path / "estimate.json", ESTIMATES[name])
    assert load_estimate(tmp_path / "estimate.json").to_dict() == ESTIMATES[name]


@pytest.mark.parametrize("name", ESTIMATES)
def test_whatever_number_is_changed_nothing_contradicts_itself(tmp_path, name):
    document, rng = ESTIMATES[name], np.random.default_rng(3)
    places = list(numbers(document))
    changes = (lambda v: v + 1, lambda v: 2 * v, lambda v: -v, lambda v: v * 1.13, lambda _: 0, lambda _: 1e9)
    for k in rng.permutation(len(places))[: 60 if IS_FULL else 15]:
        change = changes[rng.integers(len(changes))]
        require_loads_consistently(tmp_path / "estimate.json", change_entry(document, places[k], change))


@pytest.mark.parametrize("name", ESTIMATES)
def test_every_coefficient_of_the_base_set_is_that_of_the_robot(tmp_path, name):
    K = ESTIMATES[name]["base"]["matrix"]
    for i, j in np.random.default_rng(4).integers(0, (len(K), len(K[0])), (12, 2)).tolist():
        largest = max(map(abs, K[i]))
        for off in (largest, 1e-6 * largest):
            wrong = change_entry(ESTIMATES[name], ("base", "matrix", i, j), lambda v, off=off: v + off)
            assert "does not belong to robot" in load_error(tmp_path, wrong)


def test_another_choice_of_the_same_base_set_loads(tmp_path):
    arm = load_robot("planar2")
    other = base_parameters(
        arm, "numeric", priority=("Izz1", *(label for label in base_parameters(arm).labels if label != "Izz1"))
    )
    assert other.survivors != base_parameters(arm, "numeric").survivors
    rng = np.random.default_rng(5)
    q, qd, qdd = rng.normal(size=(3, 50, 2))
    tau = compile_model(arm).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.1, q.shape)
    samples = Samples(arm.joint_names, q, qd, qdd, tau, 100.0, np.zeros(len(q), np.int64))
    estimate = LeastSquares().fit(build_rows(arm, samples, EquationSettings(drive_parameters="stated"), base=other))
    estimate.save(tmp_path / "estimate.json")
    again = load_estimate(tmp_path / "estimate.json")
    assert np.abs(again.predict(q, qd, qdd) - estimate.predict(q, qd, qdd)).max() < 1e-9
    i, j = np.argwhere((other.matrix != 0) & (other.matrix != 1))[0].tolist()
    assert "does not belong to robot" in load_error(
        tmp_path, change_entry(estimate.to_dict(), ("base", "matrix", i, j), 0.5)
    )


def test_physical_values_are_those_behind_beta(tmp_path):
    document = ESTIMATES["held to what is physical"]
    for way in (("values", "beta", 0), ("values", "physical", "values", 1)):
        assert "do not reproduce its base parameters" in load_error(
            tmp_path, change_entry(document, way, lambda v: 1.1 * v + 0.1)
        )


SIGNS = {
    "gravity": lambda values: values["robot"]["gravity"].__setitem__(1, -values["robot"]["gravity"][1]),
    "axis": lambda values: values["robot"]["joint"][0]["axis"].__setitem__(2, -values["robot"]["joint"][0]["axis"][2]),
    "value": lambda values: values["values"]["beta"].__setitem__(0, -values["values"]["beta"][0]),
    "covariance": lambda values: values["uncertainty"]["covariance"][0].__setitem__(
        0, 2 * values["uncertainty"]["covariance"][0][0]
    ),
}


@pytest.mark.parametrize("change", SIGNS)
def test_a_changed_sign_is_rejected(tmp_path, change):
    path = load_estimate(SAVED).save(tmp_path / "estimate.json")
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values, sort_keys=True))
    load_estimate(path)  # spaces and order do not matter
    SIGNS[change](values)
    path.write_text(json.dumps(values))
    with raises(InputError, Code.DISAGREEMENT):
        load_estimate(path)


def test_a_changed_drive_ratio_is_rejected(tmp_path):
    robot = replace(load_robot("planar2"), drives=(Drive("joint1", ratio=50.0, rotor_inertia=1e-3),))
    q, qd, qdd = np.random.default_rng(1).normal(size=(3, 200, 2))
    tau = compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    rows = build_rows(robot, Samples(robot.joint_names, q, qd, qdd, tau, 100.0, np.zeros(200, np.int64)))
    path = LeastSquares().fit(rows).save(tmp_path / "estimate.json")
    values = json.loads(path.read_text())
    values["robot"]["drive"][0]["ratio"] *= -1
    path.write_text(json.dumps(values))
    with raises(InputError, Code.DISAGREEMENT, "sha256"):
        load_estimate(path)


def with_curves(saved, curves):
    return saved | {"uncertainty": saved["uncertainty"] | {"friction_curves": curves}}


def test_half_widths_of_friction_curves_are_not_negative(tmp_path, saved):
    curve = {
        "joint": "joint1", "speed": [0.0, 1.0], "torque": [0.0, 1.0], "half_width": [0.1, 0.1], "deviations": None,
        "laws": {}, "load": 0.0, "load_coefficient": 0.0,
    }  # fmt: skip
    values = with_curves(saved, [curve])
    (tmp_path / "estimate.json").write_text(json.dumps(values))
    load_estimate(tmp_path / "estimate.json")
    load_error(tmp_path, with_curves(saved, [curve | {"half_width": [0.1, -0.1]}]))
    load_error(tmp_path, with_curves(saved, [curve | {"half_width": [0.1]}]))
