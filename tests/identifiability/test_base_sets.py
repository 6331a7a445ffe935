"""Base sets by name, reduced models, design questions, and Yoshida's value sets."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from closed_models import closed_model
from closeness import ORACLE, assert_close, assert_negligible
from identifiability.parallelogram_arms import REFERENCE
from raising import raises

from mindyn import ExtraTorque, build_equation, load_robot
from mindyn.equations.identifiability.base_sets import base_parameters
from mindyn.equations.identifiability.reduction import reduce_model
from mindyn.foundation.errors import Code, InputError, MissingPhysicsError, RobotError, UnknownNameError
from mindyn.papers.yoshida_robot import VALUE_TABLES, yoshida_puma, yoshida_values
from mindyn.robots.drive_matrices import gear_matrix

YOSHIDA = json.loads((REFERENCE / "yoshida_puma.json").read_text())
FORMS = ("structural", "lin", "gautier", "mayeda", "general", "numeric")


def motion(joints: int, count: int = 60):
    """A smooth motion: sines of several frequencies."""
    t, k = np.linspace(0, 3, count)[:, None], 1 + np.arange(joints)
    return np.sin(k * t), k * np.cos(k * t), -(k**2) * np.sin(k * t)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_converts_to_every_other(form):
    robot = load_robot("puma560")
    base = base_parameters(robot, form)
    assert base.form == form
    for other in FORMS:
        there = base_parameters(robot, other)
        assert_close(base.transform_to(there) @ base.values, there.values, 1e-8)


def test_loops_use_the_closed_form_if_it_exists_and_note_it():
    closed = base_parameters(load_robot("palletiser"))
    assert (closed.form, closed.count) == ("mayeda", 25)
    assert "theorem 2.5.1" in closed.notes[0]
    numeric = base_parameters(load_robot("five_bar"))
    assert (numeric.form, numeric.count) == ("numeric", 26)
    assert "not a planar parallelogram" in numeric.notes[0]
    with raises(RobotError, Code.UNSUPPORTED, "five_bar"):
        base_parameters(load_robot("five_bar"), "mayeda")
    with raises(RobotError, Code.UNSUPPORTED, "lin"):
        base_parameters(load_robot("five_bar"), "lin")


def test_wrong_forms_raise():
    robot = load_robot("palletiser")
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "khalil"):
        base_parameters(robot, "khalil")
    with raises(InputError, Code.UNSUPPORTED, "priority"):
        base_parameters(robot, priority=["m1"])
    with raises(MissingPhysicsError, Code.MISSING_VALUE, "palletiser"):
        base_parameters(robot, with_drives=True)
    with raises(InputError, Code.UNSUPPORTED, "with_drives"):
        base_parameters(load_robot("puma560"), "lin", with_drives=True)


@pytest.mark.parametrize("name", ["puma560_fgl", "five_bar"])
def test_a_reduced_model_has_the_errors_it_reports(name):
    robot = load_robot(name)
    joints = robot.joint_count
    q, qd, qdd = motion(joints)
    reduction = reduce_model(robot, q, qd, qdd, tolerance=0.02)
    count = len(reduction.energies)
    assert (np.diff(reduction.energy_error) <= 1e-12).all()
    assert 0 < reduction.kept < count
    assert reduction.energy_error[reduction.kept] <= 0.02 < reduction.energy_error[reduction.kept - 1]
    if robot.loops:
        dynamics = closed_model(robot)
        H = np.diff(dynamics.energy_regressor(q, qd).sum(axis=1), axis=0)
        Y = dynamics.standard_regressor(q, qd, qdd)
    else:
        rows = build_equation(robot, "energy_regressor")
        H = np.diff([np.array(rows(*state)).sum(axis=0) for state in zip(q, qd, strict=True)], axis=0)
        standard = build_equation(robot, "standard_regressor")
        Y = np.array([np.array(standard(*state)) for state in zip(q, qd, qdd, strict=True)])
    missed = np.linalg.norm(H @ (robot.phi - reduction.phi)) / np.linalg.norm(H @ robot.phi)
    assert_close(missed, reduction.energy_error[reduction.kept], 1e-8)
    rms = np.sqrt(((Y @ (robot.phi - reduction.phi)) ** 2).mean(axis=0))
    assert_close(rms, reduction.torque_error[reduction.kept], 1e-8)
    assert_negligible(reduction.torque_error[-1], reduction.torque_size.max(), ORACLE)
    assert reduce_model(robot, q, qd, qdd, keep=5).kept == 5
    assert "components" in str(reduction)
    with raises(InputError, Code.OUT_OF_RANGE, "keep"):
        reduce_model(robot, q, qd, qdd, keep=99)


@pytest.mark.parametrize("table", VALUE_TABLES)
def test_yoshidas_tables_are_base_values_of_the_bundled_robot(table):
    robot, values = yoshida_puma(table), yoshida_values(table)
    assert values == YOSHIDA["value_sets_named"][table]
    base = base_parameters(robot, "mayeda")
    assert len(values) == 52
    assert_close(base.values, [values[name] for name in base.names], ORACLE)
    assert_close(np.linalg.inv(gear_matrix(robot)), YOSHIDA["gear"]["K"], ORACLE)
    for i, drive in enumerate(robot.drives, start=1):
        assert (drive.viscous, drive.coulomb) == (values[f"b{i}"], values[f"c{i}"])
        assert drive.rotor_inertia == values.get(f"h{i}", 0.0)


def test_the_bundled_robot_has_table_1_and_52_model_parameters():
    robot = load_robot("puma560_yoshida")
    assert robot == yoshida_puma("table1")
    base = base_parameters(robot, with_drives=True)
    assert base.count - sum(name.startswith("fo") for name in base.names) == 52
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "table4"):
        yoshida_values("table4")


def test_a_formula_needs_values_only_at_reachable_positions():
    robot = load_robot("planar2")
    sprung = replace(robot, extras=(ExtraTorque("spring", "joint2", "sqrt(2 + q)"),))
    assert "spring" in base_parameters(sprung, with_drives=True).names
    narrow = replace(robot, extras=(ExtraTorque("spring", "joint2", "sqrt(0.001 - (q - 0.7) ** 2)"),))
    with raises(RobotError, Code.NOT_FINITE, "spring"):
        base_parameters(narrow, with_drives=True)
