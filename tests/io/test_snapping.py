"""Robots written with few digits of pi are the intended robot, with a finding."""

from __future__ import annotations

import numpy as np
import pytest
from messages import messages

from mindyn import load_robot, write_urdf
from mindyn.foundation.algebra.rotations import rotation_from_rpy
from mindyn.foundation.findings import Kind
from mindyn.robots.snapping import SNAP_ANGLE_RAD, Snapper


@pytest.fixture(scope="module")
def puma_text(tmp_path_factory):
    path = tmp_path_factory.mktemp("puma") / "puma.urdf"
    write_urdf(load_robot("puma560"), path, force=True)
    return path.read_text()


def load_rounded(text: str, right_angle: str, path):
    exact = repr(np.pi / 2)
    assert exact in text
    path.write_text(text.replace(exact, right_angle))
    return path


def test_puma_with_rounded_pi_is_the_same_robot(puma_text, tmp_path):
    exact = load_robot(load_rounded(puma_text, repr(np.pi / 2), tmp_path / "exact.urdf"))
    nine = load_robot(load_rounded(puma_text, "1.570796327", tmp_path / "nine.urdf"))
    five = load_robot(load_rounded(puma_text, "1.5708", tmp_path / "five.urdf"))
    assert nine == exact
    assert five == exact
    assert messages(exact) == ()
    assert [note.kind for note in (*nine.findings, *five.findings)] == [Kind.ROUNDED_GEOMETRY, Kind.ROUNDED_GEOMETRY]
    assert len(nine.findings[0].details) == len(five.findings[0].details) == 4
    assert "joint 'joint4' origin roll: 1.5708 rad rounded to 90 deg" in five.findings[0].details
    assert "info: 4 angles and axes within 1e-05 rad of a multiple of 15 degrees" in str(five)


def test_snapping_can_be_turned_off(puma_text, tmp_path):
    path = load_rounded(puma_text, "1.5708", tmp_path / "five.urdf")
    unsnapped = load_robot(path, snap=False)
    assert unsnapped != load_robot(path)
    assert unsnapped.findings == ()
    assert np.abs(unsnapped.joints[1].origin.rotation[1, 1]) == pytest.approx(abs(np.cos(1.5708)), rel=1e-9)


def test_calibrated_angles_are_not_changed():
    snap = Snapper()
    calibrated = np.array([np.pi / 2 + 3 * SNAP_ANGLE_RAD, 0.1, -0.2])
    assert (snap.rpy(calibrated, "x") == rotation_from_rpy(*calibrated)).all()
    assert snap.findings == []


def test_axes_are_snapped_and_normalised():
    snap = Snapper()
    assert snap.axis([0, 0, 2], "a").tolist() == [0, 0, 1]
    assert snap.axis([1e-7, 0, 1], "b").tolist() == [0, 0, 1]
    assert snap.axis([0.7071, 0, 0.70711], "c").tolist() == [np.sqrt(0.5), 0, np.sqrt(0.5)]
    assert snap.axis([-1, 0, 0], "d").tolist() == [-1, 0, 0]
    assert [str(note)[0] for note in messages(snap)] == ["a", "b", "c", "c"]
    assert [note.kind for note in snap.findings] == [
        Kind.NORMALISED_AXIS,
        Kind.ROUNDED_GEOMETRY,
        Kind.NORMALISED_AXIS,
        Kind.ROUNDED_GEOMETRY,
    ]
    assert Snapper(active=False).axis([1e-7, 0, 1], "b")[0] != 0


def test_rotations_by_quaternion_and_matrix_snap_too():
    snap = Snapper()
    R = rotation_from_rpy(1.5708, 0.0, -0.785398)
    snapped = snap.rotation(R, "x")
    assert snapped[0, 0] == np.sqrt(0.5)
    assert len(messages(snap)) == 2
    assert (snap.rotation(snapped, "again") == snapped).all()
    assert len(messages(snap)) == 2
    gimbal = rotation_from_rpy(0.3, 1.5708, 0.2)
    assert snap.rotation(gimbal, "gimbal")[2, 0] == -1.0


@pytest.mark.parametrize("snap", [True, False])
def test_an_angle_above_one_turn_is_reported(puma_text, tmp_path, snap):
    """The angle may be in degrees by mistake; it is kept, and exactly one turn is not reported."""
    written = load_robot(load_rounded(puma_text, "90", tmp_path / "degrees.urdf"), snap=snap)
    (note,) = [note for note in written.findings if note.kind == Kind.LARGE_ANGLE]
    assert note.message == "4 angles are larger than one turn: were they written in degrees?"
    assert "joint 'joint4' origin roll is 90 rad, more than one turn" in note.details
    turned = load_robot(load_rounded(puma_text, repr(2 * np.pi), tmp_path / "turn.urdf"), snap=snap)
    assert Kind.LARGE_ANGLE not in [note.kind for note in turned.findings]
