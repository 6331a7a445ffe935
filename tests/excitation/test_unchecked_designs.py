"""A design says what was not checked: in Python, on its page and in every file."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from cli.program import mindyn_program
from example_robots import example_robot
from excitation.full_speed import design_motion
from oracles.collision_scene import load_scene
from oracles.motion_reference import check_motion, read_motion

import mindyn
from mindyn.foundation.findings import Kind, Severity
from mindyn.foundation.hints import install_command
from mindyn.motions import volumes_of
from mindyn.motions.excitation.motion_files import ALL

QUICK = {
    "seconds": 6.0,
    "family": mindyn.Fourier(2, ramp_s=1.0),
    "starts": 1,
    "deadline_s": 2.0,
}
SHORT = ("--seconds", "6", "--harmonics", "2", "--starts", "1", "--deadline-s", "10", "--rate-hz", "50")
TURNED_OFF = {
    "floor": {"floor": None},
    "self-collision": {"self_collision": False},
    "tip speed": {"tip_speed": np.inf},
}


def errors_of(design) -> list:
    return [finding for finding in design.findings if finding.severity is Severity.ERROR]


@pytest.mark.parametrize("names", [("floor",), ("floor", "self-collision"), ("self-collision", "tip speed")])
def test_checks_that_are_turned_off_are_errors_everywhere(names, tmp_path):
    robot = mindyn.load_robot("ur10")
    settings = {key: value for name in names for key, value in TURNED_OFF[name].items()}
    design = design_motion(robot, **settings, **QUICK)
    (error,) = errors_of(design)
    assert error.kind is Kind.NOT_CHECKED
    assert error.details == names
    words = f"NOT CHECKED: {', '.join(names)}"
    assert words in repr(design)
    assert words in design.headline
    assert not [finding for finding in design.findings if finding.kind is Kind.GUESSED_FLOOR] or "floor" not in names
    written = design.write(tmp_path / "motion", rate_hz=50.0)
    assert {*ALL, "motion.script", "rehearsal.script"} == {path.name for path in written}
    for path in written:
        text = path.read_text()
        assert words in text.replace(";", ","), path.name
        assert "within all limits" not in text
        assert "Play the sample files" not in text
    assert json.loads((tmp_path / "motion" / "motion.json").read_text())["errors"] == [words]


def test_a_design_with_all_checks_has_no_error():
    robot = mindyn.load_robot(example_robot("ur5"))
    design = design_motion(robot, **QUICK)
    assert not errors_of(design)
    assert "NOT CHECKED" not in repr(design)
    assert "within all limits" in " ".join(design.summary())


def test_a_command_without_a_floor_says_so(tmp_path):
    done = mindyn_program("excite", "ur10", *SHORT, "--no-floor", "--out", str(tmp_path / "motion"))
    assert done.code == 0, done.err
    assert "NOT CHECKED: floor" in done.out
    assert "error: NOT CHECKED: floor" in done.err
    assert "play the rehearsal first" not in done.err


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return a UR5 whose meshes are missing: the inertia of its wrists is that of links of half a metre."""
    return shutil.copy(example_robot("ur5"), tmp_path_factory.mktemp("bare") / "ur5.urdf")


def test_guessed_radii_are_not_wider_than_the_distances_of_joints(bare):
    guessed = {volume.link: volume for volume in volumes_of(mindyn.load_robot(bare)).volumes}
    known = volumes_of(mindyn.load_robot(example_robot("ur5"))).volumes
    for volume in known:
        radius = max(cover.radius for cover in guessed[volume.link].covers)
        assert radius < 0.15, volume.link
        if "wrist" in volume.link:
            assert radius > max(cover.radius for cover in volume.covers)


def test_overlapping_guesses_are_unchecked_pairs_and_other_pairs_do_not_touch(bare, tmp_path):
    done = mindyn_program("excite", str(bare), *SHORT, "--out", str(tmp_path / "motion"))
    assert done.code == 0, done.err
    assert "within all limits" not in done.out
    check = json.loads((tmp_path / "motion" / "motion.json").read_text())["check"]
    assert min(item["distance_m"] for item in check["distances"]) > 0
    unchecked = {
        name
        for item in check["findings"]
        if item["kind"] == Kind.UNCHECKED_PAIR and item["severity"] == "warning"
        for name in item["joints"]
    }
    assert f"{len(unchecked)} pairs of links not checked" in check["headline"]
    assert "wrist_1_link - wrist_3_link" in unchecked
    result = check_motion(load_scene(example_robot("ur5")), read_motion(tmp_path / "motion" / "motion.csv"))
    assert min(result.floor.values()) > 0
    assert not [name for name, distance in result.pairs.items() if distance <= 0 and name not in unchecked]


def test_guesses_that_overlap_at_home_are_unchecked_there_and_home_is_accepted(bare):
    """The wrist is folded onto the forearm, where the guesses overlap and the true links do not."""
    robot = mindyn.load_robot(bare)
    home = [0.0, -1.5708, 1.0, -1.5708, 0.0, 0.0]
    design = design_motion(robot, home=home, **QUICK)
    assert design.approach is not None
    assert min(distance.distance_m for distance in design.check.distances) > 0
    assert not errors_of(design)


def test_without_coal_the_headline_counts_the_pairs_that_it_could_check(monkeypatch):
    monkeypatch.setattr("mindyn.motions.excitation.collision_shapes.import_coal", lambda: None)
    design = design_motion(mindyn.load_robot(example_robot("ur5")), **QUICK)
    (finding,) = [finding for finding in design.findings if finding.kind is Kind.INEXACT_PAIR]
    assert install_command("collision") in finding.remedy
    assert {*finding.joints} <= {*design.check.unchecked}
    noun = "pair" if len(finding.joints) == 1 else "pairs"
    assert f"{len(finding.joints)} more {noun} can be checked with mindyn[collision]" in design.headline
    assert "within all limits" not in " ".join(design.summary())
