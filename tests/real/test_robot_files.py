"""Robot files as people publish them: nearly all load, and give the torques that Pinocchio reads from the same file."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from closeness import PUBLISHED_FILE

from mindyn import MindynError, load_robot
from mindyn.equations.catalogue import build_equation
from mindyn.equations.loop_equations import loop_equation

FOLDER = os.environ.get("MINDYN_ROBOT_FILES", "")
REASONS = {
    "has no moving joint": 3,
    "the file is xacro, not URDF": 2,
    "link names must be unique": 1,
}
"""Why files of the collection do not load, and how many at most."""

pytestmark = pytest.mark.skipif(not FOLDER, reason="MINDYN_ROBOT_FILES is not set: published robots are not bundled")


@pytest.fixture(scope="module")
def files() -> list[Path]:
    return sorted(Path(FOLDER).rglob("*.urdf"))


def test_files_load_or_give_a_valid_reason(files):
    result: dict[str, list[str]] = {}
    for path in files:
        try:
            robot = load_robot(path)
            robot.consistency()
            assert str(robot)
        except MindynError as error:
            reason = next((item for item in REASONS if item in error.message), error.message)
            result.setdefault(reason, []).append(path.name)
    loaded = len(files) - sum(map(len, result.values()))
    print(f"{loaded} of {len(files)} files load; {result}")
    assert len(files) >= 160
    assert loaded >= 153
    assert set(result) <= set(REASONS), result
    assert all(len(names) <= REASONS[reason] for reason, names in result.items()), result


def read_mimics(text: str) -> dict[str, tuple[str, float, float]]:
    """Joints that mimic others, as the file states it: whom, multiplier, offset."""
    result = {}
    bound = re.sub(r"(</?|\s)(\w+):(?=\w+[\s=/>])", r"\1\2_", text)  # files use prefixes that they never declare
    for joint in ET.fromstring(bound).iter("joint"):
        if (mimic := joint.find("mimic")) is not None:
            stated = float(mimic.get("multiplier", 1)), float(mimic.get("offset", 0))
            result[joint.get("name")] = (mimic.get("joint"), *stated)
    return result


def tree_motion(names: list[str], moved: tuple[str, ...], mimics) -> tuple[np.ndarray, np.ndarray]:
    """A, b with q = A p + b: joints of Pinocchio's tree by the joints that move on their own; others stay at zero."""
    A, b = np.zeros((len(names), len(moved))), np.zeros(len(names))
    for i, name in enumerate(names):
        factor = 1.0
        while name in mimics:
            name, multiplier, offset = mimics[name]
            b[i] += factor * offset
            factor *= multiplier
        if name in moved:
            A[i, moved.index(name)] = factor
    return A, b


def test_torques_are_pinocchios(files):
    compared, dependent = 0, 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        try:
            robot = load_robot(path, snap=False)
            model = pin.buildModelFromXML(text)
        except (MindynError, ValueError):
            continue
        if not robot.has_parameters:
            continue
        single = [i for i in range(1, model.njoints) if model.joints[i].nv == 1]
        A, b = tree_motion([model.names[i] for i in single], robot.primary_names, read_mimics(text))
        p, pd, pdd = np.random.default_rng(0).uniform(-1, 1, (3, A.shape[1]))
        state, rates, accelerations = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for i, q in zip(single, A @ p + b, strict=True):
            joint = model.joints[i]
            state[joint.idx_q : joint.idx_q + joint.nq] = q if joint.nq == 1 else (np.cos(q), np.sin(q))
        columns = [model.joints[i].idx_v for i in single]
        rates[columns], accelerations[columns] = A @ pd, A @ pdd
        expected = A.T @ pin.rnea(model, model.createData(), state, rates, accelerations)[columns]
        make = loop_equation if robot.has_dependents else build_equation
        result = make(robot, "inverse_dynamics", parameters="standard")(p, pd, pdd).full().ravel()
        error = np.abs(result - expected).max() / max(np.abs(expected).max(), 1e-3)
        assert error <= PUBLISHED_FILE, f"{path.name}: torques differ from Pinocchio's by {error:.2g}"
        compared, dependent = compared + 1, dependent + robot.has_dependents
    print(f"{compared} files compared, {dependent} of them with joints that mimic others")
    assert compared >= 95
    assert dependent >= 10
