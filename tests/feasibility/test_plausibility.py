"""`check_full_model`: masses, centres of mass and inertia matrix that a real robot could have; others are rejected."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from cli.program import mindyn_program
from raising import raises

import mindyn
from mindyn.cli.exit_codes import ExitCode
from mindyn.foundation.algebra.inertia import mass_com_inertia, phi_about_origin
from mindyn.foundation.errors import Code, ExportError, ImplausibleModelError, InputError
from mindyn.identification import check_full_model

FORMATS = {"urdf": "x.urdf", "mjcf": "x.xml", "toml": "x.toml", "c": "x.c", "cpp": "x.hpp", "python": "x.py"}


def with_link(robot, index, change):
    """Return the robot with another mass, centre and inertia of one link."""
    links = list(robot.links)
    links[index] = replace(links[index], phi=phi_about_origin(*change(*mass_com_inertia(links[index].phi))))
    return replace(robot, links=tuple(links))


def heavier(robot, index, factor):
    return with_link(robot, index, lambda mass, centre, J: (factor * mass, centre, factor * J))


@pytest.mark.parametrize("name", mindyn.bundled_robots())
def test_bundled_robots_are_plausible_compared_with_themselves(name):
    robot = mindyn.load_robot(name)
    if robot.has_parameters:
        assert check_full_model(robot, robot).problems == ()


def test_the_total_mass_is_that_of_pinocchio():
    robot = mindyn.load_robot("panda")
    assert check_full_model(robot).total_mass == pytest.approx(pin.computeTotalMass(mindyn.to_pinocchio(robot)))


@pytest.mark.parametrize("index", range(7))
def test_a_link_as_heavy_as_ten_robots_is_implausible(index):
    robot = mindyn.load_robot("panda")
    factor = 10 * robot.phi[::10].sum() / robot.links[index].phi[0]
    answer = check_full_model(heavier(robot, index, factor), robot)
    assert [link.link for link in answer.links if link.is_too_heavy] == [robot.link_names[index]]
    assert not answer.answer.holds


@pytest.mark.parametrize("index", range(7))
def test_a_centre_metres_away_is_implausible(index):
    robot = mindyn.load_robot("panda")
    far = with_link(robot, index, lambda mass, centre, J: (mass, centre + np.array([0.0, 3.0, 0.0]), J))
    answer = check_full_model(far, robot)
    assert [link.link for link in answer.links if not link.has_near_centre] == [robot.link_names[index]]
    assert 2.0 < answer.links[index].centre_distance < 4.0


def test_a_tool_at_the_tip_is_plausible():
    robot = mindyn.load_robot("panda")
    tool = 0.2 * robot.phi[::10].sum()
    loaded = with_link(robot, 6, lambda mass, centre, J: (mass + tool, centre + np.array([0.0, 0.0, 0.1]), J))
    assert check_full_model(loaded, robot).is_plausible


def test_a_light_link_is_named_but_plausible():
    robot = mindyn.load_robot("panda")
    answer = check_full_model(heavier(robot, 2, 0.05), robot)
    assert answer.is_plausible
    assert answer.light_links == (robot.link_names[2],)


def test_without_a_reference_a_solid_steel_cube_limits_the_mass():
    robot = mindyn.load_robot("panda")
    blank = replace(robot, links=tuple(replace(link, phi=None) for link in robot.links))
    assert check_full_model(robot).is_plausible
    assert check_full_model(robot, blank).is_plausible
    thousand = heavier(robot, 3, 1000 / robot.links[3].phi[0])
    for reference in (None, blank):
        assert [link.link for link in check_full_model(thousand, reference).links if link.is_too_heavy] == [
            robot.link_names[3]
        ]


def test_a_singular_inertia_matrix_is_implausible():
    robot = mindyn.load_robot("planar2")
    links = (robot.links[0], replace(robot.links[1], phi=np.zeros(10)))
    answer = check_full_model(replace(robot, links=links, drives=()))
    assert answer.condition_number == np.inf
    assert not answer.is_plausible


def test_a_reference_with_other_links_raises():
    with raises(InputError, Code.DISAGREEMENT, "panda"):
        check_full_model(mindyn.load_robot("puma560"), mindyn.load_robot("panda"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder with the run of an arm whose links are 30 times as heavy as in its file, and the true robot."""
    folder = tmp_path_factory.mktemp("heavy")
    robot = mindyn.load_robot("planar2")
    truth = heavier(heavier(robot, 0, 30.0), 1, 30.0)
    mindyn.write_toml(robot, folder / "arm.toml")
    mindyn.write_toml(truth, folder / "truth.toml")
    ended = mindyn_program("simulate", folder / "truth.toml", "--out", folder / "log.csv", "--seconds", "8")
    assert ended.code == ExitCode.DONE
    ended = mindyn_program(
        *("identify", folder / "arm.toml", folder / "log.csv", "--method", "ordinary", "--hold-out", "0.3"),
        *("--no-report", "--out", folder / "run"),
    )
    assert ended.code == ExitCode.NO, ended.err  # the torque is 30 times that of the file: the model must not be used
    return folder


@pytest.mark.parametrize("to", FORMATS)
def test_export_of_an_implausible_model_exits_3_and_writes_nothing(run, to):
    out = run / FORMATS[to]
    ended = mindyn_program("export", run / "run", "--to", to, "--out", out, "--feasible", "--json")
    assert ended.code == ExitCode.NO
    error = json.loads(ended.out)["error"]
    assert error["code"] == str(Code.IMPLAUSIBLE)
    assert error["subject"] in mindyn.load_robot("planar2").link_names
    assert "--consistent" in error["hint"]
    assert not out.exists()


def test_python_writers_reject_it_too_unless_forced_or_compared_with_the_truth(run):
    estimate = mindyn.make_feasible(mindyn.load_estimate(run / "run" / "estimate.json"))
    for write in (mindyn.write_urdf, mindyn.write_mjcf, mindyn.write_toml):
        with raises(ImplausibleModelError, Code.IMPLAUSIBLE):
            write(estimate, run / "y")
    assert not (run / "y").exists()
    mindyn.write_toml(estimate, run / "forced.toml", force=True)
    mindyn.write_toml(estimate, run / "known.toml", prior=mindyn.load_robot(run / "truth.toml"))
    truth = mindyn.load_robot(run / "truth.toml")
    assert mindyn.load_robot(run / "known.toml").phi[10] == pytest.approx(truth.phi[10], rel=0.05)


def test_errors_before_and_after_the_projection_are_those_of_validate(run):
    out = run / "known2.toml"
    ended = mindyn_program(
        *("export", run / "run", "--to", "toml", "--out", out, "--feasible", "--prior", run / "truth.toml", "--json")
    )
    assert ended.code == ExitCode.DONE, ended.err
    errors = json.loads(ended.out)["errors"]
    assert set(errors) == {"training", "held-out"}
    stated = json.loads((run / "run" / "validation.json").read_text())["total"]
    assert errors["held-out"]["before"] == pytest.approx(stated, rel=1e-9)
    robot = mindyn.load_robot(run / "arm.toml")
    log = mindyn.read_log(run / "log.csv", robot)
    held_out = log.take(slice(round(0.7 * len(log)), len(log)))
    projected = mindyn.make_feasible(mindyn.load_estimate(run / "run" / "estimate.json"))
    after = mindyn.validate(projected, held_out).error.total
    assert errors["held-out"]["after"] == pytest.approx(after, rel=1e-9)
    assert "before making feasible" in ended.err


def infeasible(estimate):
    """Return the estimate with an impossible moment of inertia, so that it is not physically consistent."""
    index = next(k for k, parameter in enumerate(estimate.parameters) if parameter.unit == "kg m^2")
    beta = estimate.beta.copy()
    beta[index] = -0.01 * abs(beta[index])
    return estimate.with_values(beta=beta)


def test_nothing_recommends_a_projection_that_export_rejects(run):
    estimate = infeasible(mindyn.load_estimate(run / "run" / "estimate.json"))
    folder = run / "broken"
    folder.mkdir()
    estimate.save(folder / "estimate.json")
    assert not mindyn.check_feasible(estimate).has_plausible_projection
    ended = mindyn_program("check", folder)
    assert ended.code == ExitCode.NO
    assert "--feasible" not in ended.err + ended.out
    assert "--consistent" in ended.err
    with raises(ExportError, (Code.NOT_FEASIBLE, Code.IMPLAUSIBLE)) as raised:
        mindyn.write_toml(estimate, run / "z.toml")
    assert "--feasible" not in raised.value.hint
