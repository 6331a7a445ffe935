"""Identified robots: they load here, in Pinocchio and in MuJoCo, and predict held-out rows with the stated error."""

from __future__ import annotations

import json
from dataclasses import replace

import mujoco
import numpy as np
import pinocchio
import pytest
from cli.program import mindyn_program
from closeness import assert_close
from logs.real_sets import FOLDER, needs_real_data

from leaderboard.sets import prepare, read_manifests
from leaderboard.zoo import FOLDER as FILES
from leaderboard.zoo import RECIPES, ZOO, main
from mindyn import EquationSettings, compile_model, condition, identified_robots, load_robot, to_pinocchio, write_mjcf
from mindyn.applications.comparison.log_sets import read_sets
from mindyn.identification import Elasticity
from mindyn.identification.prediction.prediction_errors import torque_error
from mindyn.robots.loading import zoo_recipes

NAMES = sorted(ZOO)


def rigid(name):
    """Return the robot without drives and extra torques."""
    return replace(load_robot(f"zoo/{name}"), drives=(), extras=())


@pytest.mark.parametrize("name", NAMES)
def test_torques_are_those_of_pinocchio_and_mujoco(name):
    robot = rigid(name)
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.uniform(-1, 1, (3, 20, robot.joint_count))
    ours = compile_model(robot).inverse_dynamics(q, qd, qdd)
    size = np.abs(ours).max()
    for model in (to_pinocchio(robot), pinocchio.buildModelFromUrdf(str(FILES / f"{name}.urdf"))):
        data = model.createData()
        theirs = np.array([pinocchio.rnea(model, data, *row) for row in zip(q, qd, qdd, strict=True)])
        assert np.abs(theirs - ours).max() < 1e-9 * size
    spec = mujoco.MjSpec.from_file(str(FILES / f"{name}.urdf"))
    for joint in spec.joints:
        joint.damping, joint.frictionloss, joint.armature = np.zeros_like(joint.damping), 0.0, 0.0
    model = spec.compile()
    model.dof_damping[:] = model.dof_frictionloss[:] = model.dof_armature[:] = 0.0
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(model)
    for row, expected in zip(zip(q, qd, qdd, strict=True), ours, strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = row
        mujoco.mj_inverse(model, data)
        assert np.abs(data.qfrc_inverse - expected).max() < 1e-9 * size


@pytest.mark.parametrize("name", NAMES)
def test_links_are_physically_consistent_and_values_have_intervals(name):
    robot, entry = load_robot(f"zoo/{name}"), identified_robots()[f"zoo/{name}"]
    assert all(answer.is_feasible for answer in robot.consistency().values())
    assert {"caution", "command", "source", "licence", "settings", "findings"} <= set(entry)
    known = [parameter for parameter in entry["base_parameters"] if parameter["low"] is not None]
    assert known
    assert all(parameter["low"] <= parameter["value"] <= parameter["high"] for parameter in known)
    assert set(entry["friction"]) == set(robot.primary_names)


@needs_real_data
@pytest.mark.parametrize("name", NAMES)
def test_the_reported_error_is_that_on_held_out_rows(tmp_path, name):
    entry = identified_robots()[f"zoo/{name}"]
    (split,) = read_sets(prepare(tmp_path, [ZOO[name]], FOLDER), [ZOO[name]])
    (part,) = split.held_out
    settings = EquationSettings.from_dict(entry["settings"])
    samples = condition(split.robot, part.log, settings.conditioning.for_prediction()).samples
    predicted = compile_model(load_robot(f"zoo/{name}"), with_drives=True).inverse_dynamics(
        samples.q, samples.qd, samples.qdd
    )
    scored = slice(*part.rows)
    error = torque_error(part.log.joint_names, part.log.tau[scored], predicted[scored])
    # Friction depends on the sign of the speed, which rounding decides at rest: processors differ by 3e-4.
    assert abs(error.total - entry["held_out"]["total"]) < 1e-3 * entry["held_out"]["total"]


def test_the_stiffness_of_an_entry_is_written_into_a_simulator(tmp_path):
    """Springs in MuJoCo have the stiffness of the entry; an axis without a determined one stays rigid."""
    entry = identified_robots()["zoo/kr300_2021"]
    elasticity = Elasticity.from_dict(entry["elasticity"])
    assert [joint.joint for joint in elasticity.joints if joint.is_determined] == ["joint2", "joint3"]
    assert all(e is None or e < 0.2 for e in entry["elasticity"]["held_out"]["joints"])
    path = write_mjcf(load_robot("zoo/kr300_2021"), tmp_path / "kr300.xml", elasticity=elasticity, force=True)
    model = mujoco.MjModel.from_xml_path(str(path))
    springs = [model.joint(k) for k in range(model.njnt) if model.joint(k).name.endswith("_elastic")]
    assert_close(np.array([float(spring.stiffness[0]) for spring in springs]), elasticity.stiffness[1:3], 1e-9)


def test_recipes_write_into_a_folder_only(monkeypatch):
    listed = zoo_recipes()
    assert set(listed) == set(RECIPES)
    manifests = read_manifests(list(RECIPES.values()))
    assert not any(manifest["derived_numbers"] for manifest in manifests.values())
    printed = " ".join(mindyn_program("robots", "--identified").out.split())
    assert all(recipe["title"] in printed for recipe in listed.values())
    monkeypatch.setattr("sys.argv", ["zoo", "panda"])
    with pytest.raises(SystemExit, match="--out"):
        main()


@needs_real_data
@pytest.mark.slow
@pytest.mark.full
def test_a_recipe_writes_the_files_of_an_entry(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["zoo", "lwr4", "--out", str(tmp_path)])
    monkeypatch.setenv("MINDYN_REAL_DATA", str(FOLDER))
    main()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lwr4.json", "lwr4.toml", "lwr4.urdf"]
    assert load_robot(tmp_path / "lwr4.toml").joint_count == 7
    assert json.loads((tmp_path / "lwr4.json").read_text())["held_out"]["total"] < 0.1


def test_the_zoo_is_listed_and_only_has_sets_that_may_be_published():
    listed = json.loads(mindyn_program("robots", "--identified", "--json").out)
    of_torques = {name: entry for name, entry in listed.items() if "servos" not in entry}
    assert list(of_torques) == [f"zoo/{name}" for name in NAMES]
    manifests = read_manifests()
    assert all(manifests[entry["set"]]["derived_numbers"] for entry in of_torques.values())
    assert "other robots of the type" in mindyn_program("robots", "--identified").out
