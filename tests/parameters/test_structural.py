"""Structural base parameters: count and span equal those of the sampled torque regressor, on any tree."""

from __future__ import annotations

import re

import numpy as np
import pytest
from chunks import seeds_of_chunk
from closeness import ORACLE, assert_close
from parameters.oracle import assert_spans_row_space, sample_rows
from robots import NONE, OBLIQUE, random_motion, random_robot, with_link_frames, with_random_drives

from mindyn import load_robot, write_urdf
from mindyn.equations.catalogue import build_equation
from mindyn.parameters.structural import structural_base

CHUNK = 50


@pytest.mark.parametrize("chunk", range(60))
def test_span_of_random_trees(chunk):
    for seed in seeds_of_chunk(chunk * CHUNK, CHUNK):
        robot = random_robot(seed, joints=1 + seed % 7)
        rotors = seed % 3 == 0
        robot = with_random_drives(robot, seed) if rotors else robot
        base = structural_base(robot, with_drives=rotors)
        n = robot.joint_count
        columns = [*range(10 * n), *(10 * n + 4 * k + j for j in (0, 3) for k in range(n) if rotors)]
        inertial = base.matrix[:, columns]
        inertial = inertial[np.abs(inertial).sum(axis=1) > 0]
        assert_spans_row_space(inertial, sample_rows(robot, seed, samples=30, rotors=rotors))
        assert (base.matrix[:, base.survivors] == np.eye(base.count)).all()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("puma560", (36, 38, 34)),
        ("puma560_fgl", (36, 38, 34)),
        ("stanford", (33, 35, 31)),
        ("scara", (8, 10, 8)),
        ("panda", (43, 45, 39)),
        ("ur10", (36, 38, 34)),
    ],
)
def test_known_counts(name, counts):
    actual = [structural_base(load_robot(name, gravity=g)).count for g in (None, OBLIQUE, NONE)]
    assert tuple(actual) == counts


def test_three_joint_puma_has_fifteen():
    assert structural_base(load_robot("puma560").subchain("base", "link3")).count == 15


@pytest.mark.parametrize("seed", range(60))
def test_base_values_reproduce_the_torques(seed):
    robot = with_random_drives(random_robot(seed), seed)
    q, qd, qdd = random_motion(robot, seed)
    base = structural_base(robot, with_drives=True)
    phi = base.embedding @ base.values
    n = 10 * robot.joint_count
    torque = build_equation(robot, "inverse_dynamics", with_drives=True, parameters="input")
    expected = np.array(build_equation(robot, "inverse_dynamics", with_drives=True)(q, qd, qdd))
    assert_close(np.array(torque(q, qd, qdd, phi[:n], phi[n:])), expected, ORACLE)


@pytest.mark.parametrize("seed", range(20))
def test_conversion_between_link_frames_round_trips(seed):
    robot = random_robot(seed)
    base, other = structural_base(robot), structural_base(with_link_frames(robot, seed))
    assert base.count == other.count
    assert_close(base.transform_to(base), np.eye(base.count), ORACLE)


def test_inseparable_rotors_are_merged():
    base = structural_base(load_robot("puma560"), with_drives=True)
    assert base.count == 36 + 4 + 18
    by_name = dict(zip(base.names, base.expressions, strict=True))
    assert "Im1" in by_name["Izz1R"]
    assert "Im2" in by_name["Izz2R"]
    assert by_name["Im3"] == "Im3"


def test_rounded_urdfs_have_36_parameters(tmp_path):
    write_urdf(load_robot("puma560"), tmp_path / "exact.urdf", force=True)
    text = (tmp_path / "exact.urdf").read_text()
    for digits in ("1.570796327", "1.5708"):
        (tmp_path / "rounded.urdf").write_text(text.replace(repr(np.pi / 2), digits))
        assert structural_base(load_robot(tmp_path / "rounded.urdf")).count == 36
        # The structure asks only whether axes are parallel and gravity along the first, so no digit of pi matters here.
        assert structural_base(load_robot(tmp_path / "rounded.urdf", snap=False)).count == 36


def test_nearly_parallel_axes_are_reported(tmp_path):
    """Axes 1 and 2 of a SCARA, 5e-6 rad apart: more parameters as written, fewer as meant, and the note says so."""
    write_urdf(load_robot("scara"), tmp_path / "exact.urdf", force=True)  # its efforts are not stated
    text = (tmp_path / "exact.urdf").read_text()
    tilted = text.replace('xyz="0.325 0.0 0.0715" rpy="0.0 0.0 0.0"', 'xyz="0.325 0.0 0.0715" rpy="5e-6 0.0 0.0"')
    assert tilted != text
    (tmp_path / "tilted.urdf").write_text(tilted)
    assert structural_base(load_robot(tmp_path / "tilted.urdf")).count == 8
    as_written = structural_base(load_robot(tmp_path / "tilted.urdf", snap=False))
    assert as_written.count > 8
    assert any("nearly degenerate" in note and "snap=True" in note for note in as_written.notes)


def test_roles_name_parameters_without_effect():
    roles = structural_base(load_robot("puma560")).roles()
    assert roles["m1"] == roles["Ixx1"] == roles["mcz1"] == "none"
    assert roles["Izz6"] == roles["mcx6"] == "alone"
    assert roles["Izz1"] == roles["m4"] == "combined"


def test_expressions_are_formulas():
    base = structural_base(load_robot("puma560"))
    by_name = dict(zip(base.names, base.expressions, strict=True))
    assert by_name["Ixx6R"] == "Ixx6 - Iyy6"
    assert by_name["mcy5R"] == "mcy5 - mcz6"
    assert by_name["mcx2R"] == "mcx2 + 0.4318 m3 + 0.4318 m4 + 0.4318 m5 + 0.4318 m6"


@pytest.mark.parametrize("seed", [3, 7])
def test_expressions_evaluated_as_text_are_the_values(seed):
    """Factors of any geometry, read back from the text; tables show six digits of them."""
    robot = random_robot(seed, special=False)
    base = structural_base(robot)
    known = dict(zip(base.labels, robot.phi.tolist(), strict=True))
    values = [eval(re.sub(r"(?<=[0-9]) (?=[A-Za-z])", " * ", text), {}, known) for text in base.expressions]
    assert_close(values, base.values, 1e-11)
    assert all(len(short) <= len(text) for short, text in zip(base.shown_expressions, base.expressions, strict=True))
