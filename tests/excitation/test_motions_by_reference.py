"""Written motions of `mindyn excite` against the original robot files: no code of the design takes part in the check.

This is a small part of `make study NAME=safe-motions`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from cli.program import mindyn_program
from oracles.collision_scene import load_scene
from oracles.motion_reference import check_motion, read_motion
from oracles.mujoco_player import model_with_floor, play
from robots_with_bodies import write_random_robot

from mindyn.foundation.findings import Kind

SHORT = ("--seconds", "6", "--harmonics", "2", "--starts", "1", "--deadline-s", "20")
TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


def design(robot: Path, folder: Path, *options: str) -> Path:
    """Run the command; the motion must have been written."""
    done = mindyn_program("excite", str(robot), *SHORT, "--out", str(folder), *options)
    assert done.code == 0, done.err
    return folder


def limits_file(folder: Path, joints) -> str:
    path = folder / "limits.toml"
    rows = {"velocity": 1.5, "effort": 1000.0}
    path.write_text("".join(f"{key} = {{ {', '.join(f'{j} = {v}' for j in joints)} }}\n" for key, v in rows.items()))
    return str(path)


def unchecked_pairs(check: dict) -> set[str]:
    """Return the pairs that a check lists as unchecked, with a warning."""
    found = [
        item for item in check["findings"] if item["kind"] == Kind.UNCHECKED_PAIR and item["severity"] == "warning"
    ]
    return {name for item in found for name in item["joints"]}


LOAD = '<body name="load"><inertial pos="0 0 0" mass="0.5" diaginertia="0.05 0.05 0.05"/></body>'
"""A body without geometry whose inertia is that of a box of 0.8 m."""


@pytest.mark.parametrize(("seed", "load"), [(1, False), (7, True)])
def test_known_bodies_never_touch_and_reported_distances_are_not_too_large(seed, load, tmp_path):
    """A guessed volume on the last link, which overlaps others nearly everywhere, must not hide its known part."""
    robot = write_random_robot(seed, tmp_path)
    scene = load_scene(robot.original)
    if load:
        text = robot.original.read_text()
        end = text.index("</body>")
        robot.original.write_text(text[:end] + LOAD + text[end:])
    options = ("--limits", limits_file(tmp_path, scene.joints), *robot.options)
    folder = design(robot.original, tmp_path / "motion", *options)
    check = json.loads((folder / "motion.json").read_text())["check"]
    reported = check["distances"]
    assert min(distance["distance_m"] for distance in reported) > 0
    assert bool(unchecked_pairs(check)) == load
    for name in ("motion.csv", "rehearsal.csv"):
        motion = read_motion(folder / name)
        result = check_motion(scene, motion)
        assert result.is_safe, result
        assert max(np.ptp(q) for q in motion.q.values()) > 0.1
        assert not result.find_overstated(reported)
    assert result.find_overstated([{**item, "distance_m": item["distance_m"] + 0.02} for item in reported])


def test_guessed_volumes_keep_hidden_bodies_from_touching(tmp_path):
    """Link 1 and link 3 of this robot touch at 42 % of all positions, and their guessed volumes at nearly all."""
    robot = write_random_robot(7, tmp_path)
    scene = load_scene(robot.original)
    options = ("--limits", limits_file(tmp_path, scene.joints), *robot.options)
    check = json.loads((design(robot.stripped, tmp_path / "motion", *options) / "motion.json").read_text())["check"]
    assert unchecked_pairs(check) == {"link1 - link3"}
    assert "1 pair of links not checked: link1 - link3" in check["headline"]
    assert not [item for item in check["distances"] if {item["first"], item["second"]} == {"link1", "link3"}]
    motion = check_motion(scene, read_motion(tmp_path / "motion" / "motion.csv"))
    assert motion.is_safe, motion
    assert set(motion.find_overstated(check["distances"])) <= {"link1 - link3"}, "a pair that is not checked"


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(re.findall(r'write_text\("""(<robot.*?</robot>\n)"""', TUTORIAL.read_text(), re.DOTALL)[0])
    return path


def test_the_tutorial_arm_touches_nothing_in_mujoco(arm, tmp_path):
    motion = read_motion(design(arm, tmp_path / "motion") / "motion.csv")
    played = play(model_with_floor(arm), motion)
    assert not played.contacts
    assert played.tracking_error < 0.01


def test_a_robot_that_cannot_keep_its_distance_gets_no_motion(arm, tmp_path):
    """The floor is above the arm."""
    done = mindyn_program("excite", str(arm), *SHORT, "--floor", "2.0", "--out", str(tmp_path / "motion"))
    assert done.code == 3
    assert not (tmp_path / "motion").exists()
