"""Readers return a robot or raise a mindyn error for any file, in time proportional to its size."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import numpy as np
import pytest
from fuzz.readers import seeds, try_case
from raising import raises

from mindyn import MindynError, load_robot
from mindyn.foundation.algebra.inertia import check_consistency
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.errors import LONGEST_MESSAGE, Code, RobotFileError

ARM = (
    '<robot name="arm"><link name="a"/><link name="b"/><joint name="j" type="revolute"><parent link="a"/>'
    '<child link="b"/><origin rpy="{}"/><axis xyz="0 0 1"/></joint></robot>'
)
CASES = {"urdf": 150, "toml": 60, "mjcf": 100}


@pytest.mark.parametrize("form", CASES)
def test_mutated_files_give_a_robot_or_a_mindyn_error(form, tmp_path):
    if form == "mjcf":
        pytest.importorskip("mujoco")
    ends = [try_case(form, seeds(form), seed, tmp_path) for seed in range(CASES[form])]
    assert not [end for end in ends if end.startswith("!")]
    assert "robot" in ends


def load_wrong(path: Path, text: str) -> MindynError:
    path.write_text(text)
    with raises(MindynError, tuple(set(Code) - {Code.INTERNAL})) as raised:  # any, but never a bug
        load_robot(path)
    return raised.value


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("arm.urdf", ARM.format("1e308 0 0"), Code.OUT_OF_RANGE),
        ("arm.urdf", ARM.format("1e12 0 0"), Code.OUT_OF_RANGE),
        ("arm.urdf", "<a>" * 2000, Code.UNSAFE_INPUT),
        ("arm.toml", "x = " + "[" * 2000, Code.WRONG_FORMAT),
        ("arm.toml", "x = " + "9" * 401, Code.UNKNOWN_NAME),
        ("arm.toml", "x = " + "9" * 9000, Code.WRONG_FORMAT),
    ],
)
def test_extreme_numbers_and_nesting_are_rejected(name, text, code, tmp_path):
    assert load_wrong(tmp_path / name, text).code is code


def test_messages_stay_readable(tmp_path):
    long = str(load_wrong(tmp_path / "arm.urdf", ARM.format("x" * 20_000)))
    assert len(long) < 2 * LONGEST_MESSAGE
    links = "".join(f'<link name="{i}{"x" * 50}"/>' for i in range(2000))
    error = load_wrong(tmp_path / "arm.urdf", f'<robot name="r">{links}</robot>')
    assert len(str(error)) < 2 * LONGEST_MESSAGE


def test_parameters_that_overflow_are_inconsistent():
    assert check_consistency(np.array([1e-300, 1e300, 0, 0, 1, 0, 1, 0, 0, 1])).status == "inconsistent"


def test_rotations_are_orthonormal_to_rounding():
    written = np.round(np.array(Pose(np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0] * 1.0).rotation), 7)
    R = Pose(written).rotation
    assert np.abs(R @ R.T - np.eye(3)).max() < 1e-15
    assert (Pose(R).rotation == R).all()


def chain(count: int) -> str:
    links = "".join(f'<link name="l{i}"/>' for i in range(count + 1))
    joints = "".join(
        f'<joint name="j{i}" type="{"fixed" if i % 2 else "revolute"}"><parent link="l{i}"/><child link="l{i + 1}"/>'
        '<axis xyz="0 0 1"/></joint>'
        for i in range(count)
    )
    return f'<robot name="chain">{links}{joints}</robot>'


def test_reading_time_is_proportional_to_the_number_of_links(tmp_path):
    def seconds(count: int) -> float:
        path = tmp_path / f"{count}.urdf"
        path.write_text(chain(count))
        best = np.inf
        for _ in range(3):
            start = process_time()
            load_robot(path)
            best = min(best, process_time() - start)
        return best

    # For four times the links, quadratic work takes 16 times as long and linear work 4 times, plus clock noise.
    assert seconds(4000) < 8 * seconds(1000)


def test_a_file_above_the_size_limit_is_rejected(tmp_path):
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(65 * 2**20)
    with raises(RobotFileError, Code.TOO_LARGE, "huge.toml"):
        load_robot(tmp_path / "huge.toml")
