"""`mindyn step-by-step` and `mindyn check --method yoshida`."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import typer
from cli.program import mindyn_program
from typer.testing import CliRunner

from mindyn import StepByStep, base_parameters, load_estimate, load_robot, plan_tests
from mindyn.cli.check_command import check
from mindyn.cli.step_by_step_command import step_by_step
from mindyn.motions.step_plans.simulated_tests import simulate_tests


def run(function, *arguments):
    app = typer.Typer()
    app.command()(function)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_step_by_step_plans_simulates_and_identifies(tmp_path):
    planned = run(step_by_step, "plan", "planar2", tmp_path, "--seconds", "1")
    assert planned.exit_code == 0, planned.output
    assert (tmp_path / "plan.json").exists()
    assert run(step_by_step, "simulate", "planar2", tmp_path, "--rate", "500").exit_code == 0
    done = run(step_by_step, "identify", "planar2", tmp_path)
    assert done.exit_code == 0, done.output
    estimate = load_estimate(tmp_path / "estimate.json")
    kept = [name not in estimate.values.dropped for name in estimate.names]
    assert np.abs(estimate.beta - estimate.base.values)[kept].max() < 1e-2 * np.abs(estimate.base.values).max()
    assert "7 tests simulated with the estimated values agree" in done.stdout
    simulated = estimate.provenance.notes["simulated"]
    assert [test["suspect"] for test in simulated] == 7 * [False]
    early = run(step_by_step, "identify", "planar2", tmp_path, "--through", "accelerated-01")
    assert early.exit_code == 0, early.output
    assert [test["test"] for test in load_estimate(tmp_path / "estimate.json").provenance.notes["simulated"]] == [
        test["test"] for test in simulated[:5]
    ]
    assert run(step_by_step, "identify", "planar2", tmp_path, "--through", "nothing").exit_code != 0
    assert run(step_by_step, "dance", "planar2", tmp_path).exit_code != 0
    assert run(step_by_step, "simulate", "planar2", tmp_path / "none").exit_code != 0
    assert not (tmp_path / "none").exists()
    assert run(step_by_step, "plan", "planar2", tmp_path / "made" / "here", "--seconds", "1").exit_code == 0
    assert (tmp_path / "made" / "here" / "plan.json").exists()


def estimate_file(path, robot, factor):
    """Return an estimate of a planar arm, with its second inertia scaled by a factor."""
    plan = plan_tests(robot, seconds=1.0)
    estimate = StepByStep().fit(robot, plan, simulate_tests(robot, plan, rate_hz=200.0))
    beta = estimate.beta.copy()
    beta[[k for k, name in enumerate(estimate.names) if name.startswith("Izz2")]] *= factor
    estimate.with_values(beta=beta).save(path)


def test_check_uses_the_cones_of_yoshida(tmp_path):
    robot = replace(load_robot("planar2"), drives=())
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    estimate_file(good, robot, 1.0)
    estimate_file(bad, robot, 0.05)
    done = run(check, good, "--method", "yoshida")
    assert done.exit_code == 0, done.output
    assert "every leading minor is inside" in done.stdout
    rejected = run(check, bad, "--method", "yoshida", "--json")
    assert rejected.exit_code == 3
    data = json.loads(rejected.stdout)
    assert data["holds"] is False
    assert set(data["modified"]) == set(base_parameters(robot).names)
    assert run(check, good, "--method", "magic").exit_code != 0


def test_the_page_of_papers_is_written_into_a_new_folder(tmp_path):
    ended = mindyn_program("papers", "angeles", "--out", tmp_path / "new" / "folder")
    assert ended.code == 0, ended.err
    assert (tmp_path / "new" / "folder" / "reproduced.md").is_file()


def test_the_arm_of_the_thesis_is_planned_without_further_options(tmp_path):
    planned = run(step_by_step, "plan", "puma560_yoshida", tmp_path / "plan")
    assert planned.exit_code == 0, planned.output
    assert (tmp_path / "plan" / "plan.json").exists()
