"""`check_feasible`, `make_feasible`, plausibility and the commands `check` and `export`."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import typer
from equations import equations
from estimators.recovered import exact_samples, smooth_samples
from feasibility.arms_with_parts import URDF
from feasibility.small_arms import long_rod_on_a_slide, planar_arm
from raising import raises
from robots import random_phi, random_robot
from typer.testing import CliRunner

from mindyn import Bounds, LeastSquares, check_feasible, compile_model, load_robot, make_feasible
from mindyn.cli.check_command import check
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.export_command import export
from mindyn.foundation.errors import Code, InputError
from mindyn.identification import check_full_model, check_positive_definite
from mindyn.identification.estimators.estimate import load_estimate
from mindyn.identification.feasibility.checks.consistent_values import check_consistent
from mindyn.identification.feasibility.checks.plausible_values import check_plausible
from mindyn.identification.feasibility.conditions.user_bounds import bounds_from_shapes, read_bounds
from mindyn.identification.feasibility.fits.constrained_fit import MIN_PRIOR_FRACTION
from mindyn.identification.feasibility.optimisation.conic_program import ConicError, ConicProgram
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.robots.parts import Limits


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    path = tmp_path_factory.mktemp("arm") / "bench_arm.urdf"
    path.write_text(URDF)
    robot = with_estimated_drives(load_robot(path))
    drives = (replace(drive, rotor_inertia=0.05, viscous=0.4, coulomb=0.3, offset=0.1) for drive in robot.drives)
    return replace(robot, drives=tuple(drives)), path


@pytest.fixture(scope="module")
def good(arm):
    return LeastSquares().fit(equations(arm[0], exact_samples(arm[0], 300, noise=1e-3)))


@pytest.fixture(scope="module")
def bad(arm):
    estimate = LeastSquares().fit(equations(arm[0], exact_samples(arm[0], 300, noise=1.0)))
    return estimate.with_values(beta=estimate.beta - 60 * estimate.deviations * (np.array(estimate.names) == "Izz2"))


def test_the_projection_is_the_nearest_in_the_metric_of_the_estimate(bad):
    projected = make_feasible(bad)
    assert check_consistent(bad).holds is False
    assert check_consistent(projected).holds is True
    inverse = np.linalg.inv(bad.covariance)

    def moved(beta):
        return float((beta - bad.beta) @ inverse @ (beta - bad.beta))

    # All other consistent values are further: mixtures with the truth and scaled arms are of one convex cone.
    truth = bad.base.values
    for other in (
        truth,
        2 * truth,
        (projected.beta + truth) / 2,
        0.99 * projected.beta + 0.01 * truth,
        1.01 * projected.beta,
    ):
        assert moved(other) > moved(projected.beta) * (1 - 1e-6)
    assert projected.provenance.notes["projected"]["distance"] == pytest.approx(
        np.sqrt(moved(projected.beta)), rel=1e-3
    )
    assert "standard deviations of noise alone to the nearest physically consistent" in projected.status


def test_consistent_values_do_not_move(good):
    assert check_consistent(good).holds is True
    projected = make_feasible(good)
    assert np.abs((projected.beta - good.beta) / good.deviations).max() < 0.05


def test_values_known_to_a_millionth_do_not_blur_the_rest():
    robot = with_estimated_drives(load_robot("planar2"))  # gears of 100: friction and rotor inertia are very well known
    rng = np.random.default_rng(0)
    links = tuple(replace(link, phi=random_phi(rng)) for link in robot.links)
    drives = tuple(replace(drive, viscous=0.3, coulomb=0.2, rotor_inertia=0.1) for drive in robot.drives)
    robot = replace(robot, links=links, drives=drives)
    samples = smooth_samples(robot, 2000)
    noisy = replace(samples, tau=samples.tau + 0.3 * rng.standard_normal(samples.tau.shape))
    estimate = LeastSquares().fit(equations(robot, noisy))
    assert (np.abs(estimate.beta) / estimate.deviations).max() > 1e5
    assert check_consistent(estimate).holds is True
    assert make_feasible(estimate).provenance.notes["projected"]["distance"] < 1e-3


def test_a_link_wider_than_the_robot_is_known_to_reach_stays_and_is_plausible():
    robot = long_rod_on_a_slide()
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 200, noise=1e-3)))
    assert check_consistent(estimate).holds is True
    assert make_feasible(estimate).provenance.notes["projected"]["distance"] < 1e-2
    assert check_plausible(estimate, Bounds(total_mass=(3.9, 4.1))).holds is True


@pytest.mark.parametrize("seed", [37, 47, 50])
def test_noisy_values_are_checked_and_projected_ones_are_consistent(seed):
    robot = random_robot(seed, joints=2 + seed % 4, tree=False)
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 60, noise=3.0)))
    assert check_consistent(estimate).holds is False
    assert check_consistent(make_feasible(estimate)).holds is True


def test_a_solver_that_fails_leaves_the_question_undecided(good, monkeypatch):
    def fails(program):
        raise ConicError(f"not solved: {program.size} variables")

    monkeypatch.setattr(ConicProgram, "solve", fails)
    feasibility = check_feasible(good, Bounds(total_mass=(0.0, 100.0)))
    assert (feasibility.consistent.holds, feasibility.plausible.holds) == (None, None)
    assert feasibility.positive_definite.holds is True


def test_consistent_values_are_positive_definite():
    robot = random_robot(31, joints=3, tree=False)
    robot = replace(robot, joints=tuple(replace(joint, kind="revolute") for joint in robot.joints))
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 60, noise=3.0)))
    inertia = np.array([name.startswith("Izz3") for name in estimate.names])
    bad = estimate.with_values(beta=np.where(inertia, estimate.beta - 3 * np.abs(estimate.beta), estimate.beta))
    assert check_positive_definite(bad).holds is False
    consistent = make_feasible(bad)
    assert consistent.provenance.notes["projected"]["distance"] > 0
    assert check_positive_definite(consistent).holds is True


def test_the_projection_of_one_inertia_ends_at_the_least_one():
    robot = planar_arm([], 1)
    robot = replace(robot, links=(replace(robot.links[0], phi=random_phi(np.random.default_rng(0))),))
    estimate = LeastSquares().fit(equations(robot, exact_samples(robot, 60, noise=0.1)))
    bad = estimate.with_values(beta=np.array([-0.5]))
    least = MIN_PRIOR_FRACTION * float(estimate.base.matrix[0] @ robot.phi)
    distance = make_feasible(bad).provenance.notes["projected"]["distance"]
    assert distance == pytest.approx((0.5 + least) / estimate.deviations[0], rel=1e-6)


@pytest.mark.parametrize("file", ["right", "none"])
def test_a_projected_inertia_matrix_is_well_conditioned(file):
    """M(q) is at least a stated fraction of that of the prior, in every configuration; links are not empty."""
    robot = with_estimated_drives(load_robot("ur10"))
    samples = exact_samples(robot, 60, noise=5.0)
    bare = replace(robot, links=tuple(replace(link, phi=None) for link in robot.links))
    projected = make_feasible(LeastSquares().fit(equations(robot if file == "right" else bare, samples)))
    assert check_consistent(projected).holds is True
    q = np.random.default_rng(0).uniform(-np.pi, np.pi, (200, 6))
    links = projected.values.physical.values[: 10 * len(robot.links)]
    bodies = zip(robot.links, links.reshape(-1, 10), strict=True)
    M = compile_model(
        replace(robot, links=tuple(replace(link, phi=phi) for link, phi in bodies), drives=())
    ).inertia_matrix(q)
    assert np.linalg.cond(M).max() < 1e6
    assert links[::10].min() > 1e-3
    if file == "right":
        M_prior = compile_model(replace(robot, drives=())).inertia_matrix(q)
        assert np.linalg.eigvalsh(M - MIN_PRIOR_FRACTION * M_prior).min() > -1e-9
    assert "the error on the training rows grows from" in projected.status


def test_undetermined_masses_of_a_projection_are_small():
    robot = with_estimated_drives(load_robot("ur10"))
    projected = make_feasible(LeastSquares().fit(equations(robot, exact_samples(robot, 400, noise=1.0))))
    values = projected.values.physical.values
    assert sum(values[: 10 * len(robot.links) : 10]) < robot.phi[::10].sum()


def test_dropped_and_unidentifiable_parameters_have_a_metric_too(arm):
    robot = arm[0]
    samples = exact_samples(robot, 300, noise=1.0)
    estimate = LeastSquares(dropped=("Im2", "Ixz2")).fit(equations(robot, samples))
    assert check_consistent(make_feasible(estimate)).holds is True


def test_plausible_asks_for_bounds_or_shapes(good):
    box = bounds_from_shapes(good.robot).centres
    assert set(box) == {"upper"}
    np.testing.assert_allclose(box["upper"], [(-0.05, -0.05, -0.05), (0.35, 0.05, 0.05)])
    assert check_plausible(good).holds is True
    bare = replace(good, regressor=Regressor(_without_shapes(good.robot)))
    assert check_plausible(bare).holds is None


def _without_shapes(robot):
    return replace(robot, links=tuple(replace(link, shapes=()) for link in robot.links))


def test_links_that_a_consistent_estimate_states_are_those_of_the_answers(good):
    projected = make_feasible(good)
    result = dict(zip(projected.values.physical.labels, projected.values.physical.values, strict=True))
    masses = [result[f"m{i + 1}"] for i in range(len(good.robot.links))]
    assert check_consistent(projected).witness["physical"] == result
    wide = check_plausible(projected, Bounds(masses={"fore": (0.0, 100.0)}))
    assert list(wide.witness["masses"].values()) == masses
    symmetric = check_plausible(projected, Bounds(masses={"upper": (masses[0] + 1.0, 100.0)}))
    assert symmetric.witness["masses"]["upper"] >= masses[0] + 0.999


def test_plausible_within_bounds_and_not_outside(good):
    wide = Bounds(masses={"fore": (0.5, 5.0)}, total_mass=(1.0, 50.0))
    assert check_plausible(good, wide).holds is True
    narrow = Bounds(centres={"fore": ((-0.01, -0.01, -0.01), (0.0, 0.01, 0.01))})
    answer = check_plausible(good, narrow)
    assert answer.holds is False
    assert "bounds" in answer.sentence
    impossible = Bounds(masses={"fore": (2.0, 3.0)}, total_mass=(0.0, 1.0))
    assert "contradict each other" in check_plausible(good, impossible).sentence


def test_three_answers_in_one_report(good, bad):
    feasibility = check_feasible(good, Bounds(total_mass=(0.0, 100.0)))
    assert feasibility.consistent.holds is True
    assert feasibility.plausible.holds is True
    assert str(feasibility).count("\n") == 2
    json.dumps(check_feasible(bad).to_dict())


def test_without_a_range_of_a_prismatic_joint_only_positive_definite_is_undecided():
    robot = load_robot("stanford")
    robot = replace(robot, joints=tuple(replace(joint, limits=Limits()) for joint in robot.joints))
    feasibility = check_feasible(LeastSquares().fit(equations(robot, exact_samples(robot))))
    assert feasibility.positive_definite.holds is None
    assert "joint3" in feasibility.positive_definite.sentence
    assert feasibility.consistent.holds is True


def test_values_that_are_not_finite_raise(good):
    with raises(InputError, Code.WRONG_SHAPE, "values"):
        check_feasible(good.with_values(beta=np.nan * good.beta))


def test_zero_mass_is_consistent(good):
    assert check_consistent(good.with_values(beta=0 * good.beta)).holds is True


def run(command, *given):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(item) for item in given])


def test_commands(good, bad, arm, tmp_path):
    good.save(tmp_path / "good.json")
    bad.save(tmp_path / "bad.json")
    (tmp_path / "bounds.toml").write_text("total_mass = [1, 100]\n[masses]\nfore = [0.5, 5]\n")
    result = run(check, tmp_path / "good.json", "--bounds", tmp_path / "bounds.toml", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["plausible"]["holds"] is True
    result = run(check, tmp_path / "bad.json")
    assert result.exit_code == ExitCode.NO
    assert "conflict" in result.stdout
    (tmp_path / "bounds.toml").write_text("[masses]\nfore = [1000, 2000]\n")
    result = run(check, tmp_path / "good.json", "--bounds", tmp_path / "bounds.toml")
    assert result.exit_code == ExitCode.NO
    assert re.search(r"plausible +no", result.stdout)
    result = run(export, tmp_path / "bad.json", "--to", "urdf", "--out", tmp_path / "x.urdf")
    assert result.exit_code != 0
    assert not (tmp_path / "x.urdf").exists()
    options = ("--to", "urdf", "--source", arm[1], "--feasible", "--out", tmp_path / "x.urdf")
    assert run(export, tmp_path / "bad.json", *options).exit_code == 0  # no mass above 5 times that of the file
    projected = load_robot(tmp_path / "x.urdf")
    assert check_full_model(projected, load_robot(arm[1])).is_plausible
    assert check_feasible(bad).has_plausible_projection
    mild = bad.with_values(beta=bad.beta + 52 * bad.deviations * (np.array(bad.names) == "Izz2"))
    mild.save(tmp_path / "mild.json")
    assert check_consistent(mild).holds is False
    assert "--feasible" in run(check, tmp_path / "mild.json").stderr
    assert run(export, tmp_path / "mild.json", *options).exit_code == 0
    assert "upper.stl" in (tmp_path / "x.urdf").read_text()
    for form, name in (("mjcf", "x.xml"), ("toml", "x.toml")):
        assert run(export, tmp_path / "good.json", "--to", form, "--out", tmp_path / name).exit_code == 0
        load_robot(tmp_path / name)


def test_an_estimate_keeps_its_full_model_through_its_file(bad, tmp_path):
    projected = make_feasible(bad)
    projected.save(tmp_path / "projected.json")
    again = load_estimate(tmp_path / "projected.json")
    assert again.values.physical.labels == projected.values.physical.labels
    assert (again.values.physical.values == projected.values.physical.values).all()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("total_mass = 3", Code.INVALID_VALUE),
        ("total_mass = '55'", Code.INVALID_VALUE),
        ("total_mass = [1, 2, 3]", Code.INVALID_VALUE),
        ("mass = 1", Code.UNKNOWN_NAME),
        ("[masses]\na = 'x'", Code.INVALID_VALUE),
    ],
)
def test_invalid_bounds_files_raise(tmp_path, text, code):
    (tmp_path / "b.toml").write_text(text)
    with raises(InputError, code):
        read_bounds(tmp_path / "b.toml")
    (tmp_path / "b.toml").write_text("= =")
    with raises(InputError, Code.WRONG_FORMAT, "b.toml"):
        read_bounds(tmp_path / "b.toml")
