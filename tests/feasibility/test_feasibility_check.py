"""`check_feasible`, `make_feasible`, plausibility and the commands `check` and `export`."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import typer
from equations import equations
from estimators.recovered import exact_samples, smooth_samples
from feasibility.arms_with_parts import URDF
from feasibility.small_arms import long_rod_on_a_slide, planar_arm
from robots import random_phi, random_robot
from typer.testing import CliRunner

from mindyn import Bounds, LeastSquares, check_feasible, load_robot, make_feasible
from mindyn.cli.check import check
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.export import export
from mindyn.errors import InputError
from mindyn.estimators.estimate import load_estimate
from mindyn.feasibility import project_to_positive_definite
from mindyn.feasibility.bounds import bounds_from_shapes, read_bounds
from mindyn.feasibility.check import check_plausible
from mindyn.feasibility.conic import ConicError, ConicProgram
from mindyn.feasibility.consistent import check_consistent
from mindyn.feasibility.consistent_projection import project_to_consistent
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
    found = LeastSquares().fit(equations(arm[0], exact_samples(arm[0], 300, noise=1.0)))
    return replace(found, beta=found.beta - 60 * found.deviations * (np.array(found.names) == "Izz2"))


def test_mending_moves_the_least_in_the_estimates_own_metric(bad):
    mended = make_feasible(bad)
    assert check_consistent(bad).holds is False
    assert check_consistent(mended).holds is True
    inverse = np.linalg.inv(bad.covariance)

    def moved(beta):
        return float((beta - bad.beta) @ inverse @ (beta - bad.beta))

    # All other consistent values are further: mixtures with the truth and scaled arms are of one convex cone.
    truth = bad.base.values
    for other in (truth, 2 * truth, (mended.beta + truth) / 2, 0.99 * mended.beta + 0.01 * truth, 1.01 * mended.beta):
        assert moved(other) > moved(mended.beta) * (1 - 1e-6)
    assert mended.provenance["projected"]["distance"] == pytest.approx(np.sqrt(moved(mended.beta)), rel=1e-3)
    assert "standard deviations of noise alone to the nearest physically consistent" in mended.status


def test_consistent_values_stay_where_they_are(good):
    assert check_consistent(good).holds is True
    mended = project_to_consistent(good)
    assert np.abs((mended.beta - good.beta) / good.deviations).max() < 0.05


def test_values_known_to_a_millionth_do_not_blur_the_rest():
    robot = with_estimated_drives(load_robot("planar2"))  # gears of 100: friction and rotor inertia are very well known
    rng = np.random.default_rng(0)
    links = tuple(replace(link, phi=random_phi(rng)) for link in robot.links)
    drives = tuple(replace(drive, viscous=0.3, coulomb=0.2, rotor_inertia=0.1) for drive in robot.drives)
    robot = replace(robot, links=links, drives=drives)
    samples = smooth_samples(robot, 2000)
    noisy = replace(samples, tau=samples.tau + 0.3 * rng.standard_normal(samples.tau.shape))
    found = LeastSquares().fit(equations(robot, noisy))
    assert (np.abs(found.beta) / found.deviations).max() > 1e5
    assert check_consistent(found).holds is True
    assert make_feasible(found).provenance["projected"]["distance"] < 1e-3


def test_a_link_wider_than_the_robot_is_known_to_reach_stays_and_is_plausible():
    robot = long_rod_on_a_slide()
    found = LeastSquares().fit(equations(robot, exact_samples(robot, 200, noise=1e-3)))
    assert check_consistent(found).holds is True
    assert make_feasible(found).provenance["projected"]["distance"] < 1e-2
    assert check_plausible(found, Bounds(total_mass=(3.9, 4.1))).holds is True


@pytest.mark.parametrize("seed", [37, 47, 50])
def test_noisy_values_are_judged_and_mended_ones_are_consistent(seed):
    robot = random_robot(seed, joints=2 + seed % 4, tree=False)
    found = LeastSquares().fit(equations(robot, exact_samples(robot, 60, noise=3.0)))
    assert check_consistent(found).holds is False
    assert check_consistent(make_feasible(found)).holds is True


def test_a_solver_that_fails_leaves_the_question_undecided(good, monkeypatch):
    def fails(program):
        raise ConicError(f"not solved: {program.size} variables")

    monkeypatch.setattr(ConicProgram, "solve", fails)
    found = check_feasible(good, Bounds(total_mass=(0.0, 100.0)))
    assert (found.consistent.holds, found.plausible.holds) == (None, None)
    assert found.positive_definite.holds is True


def test_consistent_values_are_possible_and_further_away():
    robot = random_robot(31, joints=3, tree=False)
    robot = replace(robot, joints=tuple(replace(joint, kind="revolute") for joint in robot.joints))
    found = LeastSquares().fit(equations(robot, exact_samples(robot, 60, noise=3.0)))
    inertia = np.array([name.startswith("Izz3") for name in found.names])
    bad = replace(found, beta=np.where(inertia, found.beta - 3 * np.abs(found.beta), found.beta))
    possible, consistent = project_to_positive_definite(bad, eps=1e-9), make_feasible(bad)
    assert 0 < possible.provenance["projected"]["distance"] < consistent.provenance["projected"]["distance"]
    assert project_to_positive_definite(consistent, eps=1e-9).provenance["projected"]["distance"] == 0.0


def test_both_remedies_agree_on_one_inertia():
    robot = planar_arm([], 1)
    robot = replace(robot, links=(replace(robot.links[0], phi=random_phi(np.random.default_rng(0))),))
    found = LeastSquares().fit(equations(robot, exact_samples(robot, 60, noise=0.1)))
    bad = replace(found, beta=np.array([-0.5]))
    away = [
        one.provenance["projected"]["distance"]
        for one in (project_to_positive_definite(bad, eps=1e-9), make_feasible(bad))
    ]
    assert away == pytest.approx([0.5 / found.deviations[0]] * 2, rel=1e-6)


def test_masses_that_mending_leaves_open_are_small():
    robot = with_estimated_drives(load_robot("ur10"))
    mended = make_feasible(LeastSquares().fit(equations(robot, exact_samples(robot, 400, noise=1.0))))
    values = mended.physical.values
    assert sum(values[: 10 * robot.joint_count : 10]) < robot.phi[::10].sum()


def test_left_out_and_untold_parameters_have_a_metric_too(arm):
    robot = arm[0]
    samples = exact_samples(robot, 300, noise=1.0)
    found = LeastSquares(dropped=("Im2", "Ixz2")).fit(equations(robot, samples))
    assert check_consistent(make_feasible(found)).holds is True


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
    mended = make_feasible(good)
    own = dict(zip(mended.physical.labels, mended.physical.values, strict=True))
    masses = [own[f"m{i + 1}"] for i in range(good.robot.joint_count)]
    assert check_consistent(mended).witness["physical"] == own
    wide = check_plausible(mended, Bounds(masses={"fore": (0.0, 100.0)}))
    assert list(wide.witness["masses"].values()) == masses
    symmetric = check_plausible(mended, Bounds(masses={"upper": (masses[0] + 1.0, 100.0)}))
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
    found = check_feasible(good, Bounds(total_mass=(0.0, 100.0)))
    assert found.consistent.holds is True
    assert found.plausible.holds is True
    assert str(found).count("\n") == 2
    json.dumps(check_feasible(bad).to_dict())
    with pytest.raises(InputError, match="level"):
        make_feasible(good, level="nice")


def test_without_a_range_of_a_sliding_joint_possible_alone_is_undecided():
    robot = load_robot("stanford")
    robot = replace(robot, joints=tuple(replace(joint, limits=Limits()) for joint in robot.joints))
    found = check_feasible(LeastSquares().fit(equations(robot, exact_samples(robot))))
    assert found.positive_definite.holds is None
    assert "joint3" in found.positive_definite.sentence
    assert found.consistent.holds is True


def test_values_that_are_no_numbers_are_refused(good):
    with pytest.raises(InputError, match="finite values"):
        check_feasible(replace(good, beta=np.nan * good.beta))


def test_no_mass_at_all_is_consistent(good):
    assert check_consistent(replace(good, beta=0 * good.beta)).holds is True


def run(command, *given):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(one) for one in given])


def test_commands(good, bad, arm, tmp_path):
    good.save(tmp_path / "good.json")
    bad.save(tmp_path / "bad.json")
    (tmp_path / "bounds.toml").write_text("total_mass = [1, 100]\n[masses]\nfore = [0.5, 5]\n")
    result = run(check, tmp_path / "good.json", "--bounds", tmp_path / "bounds.toml", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["plausible"]["holds"] is True
    result = run(check, tmp_path / "bad.json")
    assert result.exit_code == ExitCode.NO
    assert "contradict" in result.stdout
    (tmp_path / "bounds.toml").write_text("[masses]\nfore = [1000, 2000]\n")
    result = run(check, tmp_path / "good.json", "--bounds", tmp_path / "bounds.toml")
    assert result.exit_code == ExitCode.NO
    assert "plausible   no" in result.stdout
    result = run(export, tmp_path / "bad.json", "--to", "urdf", "--out", tmp_path / "x.urdf")
    assert result.exit_code != 0
    assert not (tmp_path / "x.urdf").exists()
    result = run(
        export, tmp_path / "bad.json", "--to", "urdf", "--source", arm[1], "--feasible", "--out", tmp_path / "x.urdf"
    )
    assert result.exit_code == 0
    assert "upper.stl" in (tmp_path / "x.urdf").read_text()
    for form, name in (("mjcf", "x.xml"), ("toml", "x.toml")):
        assert run(export, tmp_path / "good.json", "--to", form, "--out", tmp_path / name).exit_code == 0
        load_robot(tmp_path / name)


def test_an_estimate_keeps_its_full_model_through_its_file(bad, tmp_path):
    mended = make_feasible(bad)
    mended.save(tmp_path / "mended.json")
    again = load_estimate(tmp_path / "mended.json")
    assert again.physical.labels == mended.physical.labels
    assert (again.physical.values == mended.physical.values).all()


@pytest.mark.parametrize(
    "text", ["total_mass = 3", "total_mass = '55'", "total_mass = [1, 2, 3]", "mass = 1", "[masses]\na = 'x'", "= ="]
)
def test_bounds_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "b.toml").write_text(text)
    with pytest.raises(InputError):
        read_bounds(tmp_path / "b.toml")
