"""MAT files read by SciPy have the written values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from equations import equations
from estimators.recovered import exact_samples
from raising import raises
from scipy.io import loadmat

import mindyn
from mindyn.errors import Code, ExportError, InputError
from mindyn.regression.regressor import with_estimated_drives


def texts(cells) -> list[str]:
    """Return a cell array of strings as a list."""
    return [str(cell.item()) for cell in cells.ravel()]


@pytest.fixture(scope="module")
def estimate():
    robot = with_estimated_drives(mindyn.load_robot("planar2"))
    fitted = mindyn.LeastSquares(dropped=("fo1",)).fit(equations(robot, exact_samples(robot, noise=0.01)))
    covariance = fitted.covariance.copy()
    covariance[0, 0] = np.inf
    return replace(fitted, covariance=covariance)


@pytest.mark.parametrize("drives", [False, True])
def test_a_mat_file_of_a_robot_has_its_parameters(tmp_path, drives):
    robot = mindyn.load_robot("puma560")
    mindyn.write_mat(robot, tmp_path / "arm.mat", drives=drives)
    variables = loadmat(tmp_path / "arm.mat")
    base = mindyn.base_parameters(robot, drives=drives)
    assert texts(variables["base_names"]) == list(base.names)
    assert texts(variables["standard_names"]) == list(base.labels)
    assert texts(variables["base_expressions"]) == list(base.expressions)
    assert texts(variables["joint_names"]) == list(robot.joint_names)
    np.testing.assert_array_equal(variables["base_matrix"], base.matrix)
    np.testing.assert_array_equal(variables["gravity"], robot.gravity[:, None])
    np.testing.assert_allclose(
        variables["base_matrix"] @ variables["standard_values"], variables["base_values"], atol=1e-12
    )
    np.testing.assert_array_equal(variables["standard_values"][: 10 * len(robot.links), 0], robot.phi)


def test_a_robot_without_parameters_has_no_values(tmp_path):
    robot = mindyn.load_robot("planar2")
    bare = mindyn.Robot(robot.name, robot.root, robot.joints, tuple(mindyn.Link(n) for n in robot.link_names))
    mindyn.write_mat(bare, tmp_path / "bare.mat")
    variables = loadmat(tmp_path / "bare.mat")
    assert "base_matrix" in variables
    assert not {"standard_values", "base_values"} & set(variables)


def test_joints_of_a_robot_with_loops_are_its_primary_ones(tmp_path):
    robot = mindyn.load_robot("palletiser")
    mindyn.write_mat(robot, tmp_path / "arm.mat")
    variables = loadmat(tmp_path / "arm.mat")
    assert texts(variables["joint_names"]) == list(robot.primary_names) != list(robot.joint_names)
    assert len(variables["joint_kinds"]) == robot.joint_count
    title = mindyn.compile_model(robot).title()
    assert f"joints {', '.join(robot.primary_names)};" in title


def test_a_mat_file_of_an_estimate_has_its_values(tmp_path, estimate):
    mindyn.write_mat(estimate, tmp_path / "fit.mat")
    variables = loadmat(tmp_path / "fit.mat")
    assert texts(variables["names"]) == list(estimate.names)
    np.testing.assert_array_equal(variables["values"][:, 0], estimate.beta)
    np.testing.assert_array_equal(variables["covariance"], estimate.covariance)
    np.testing.assert_array_equal(variables["deviations"][:, 0], estimate.deviations)
    np.testing.assert_array_equal(variables["base_matrix"], estimate.base.matrix)
    assert str(variables["status"][0]) == estimate.status
    assert texts(variables["dropped"]) == list(estimate.dropped) == ["fo1"]
    assert len(variables["residual_rms"]) == 2
    prior = variables["base_matrix"] @ variables["prior_standard_values"]
    np.testing.assert_allclose(prior[:, 0], estimate.base.values, atol=1e-12)


def test_a_failed_mat_file_is_not_written(tmp_path):
    robot = mindyn.load_robot("planar2")
    with raises(ExportError, Code.MISSING_FILE, str(tmp_path / "no")):
        mindyn.write_mat(robot, tmp_path / "no" / "arm.mat")
    (tmp_path / "taken.mat").mkdir()
    with raises(ExportError, Code.WRONG_TYPE, "taken.mat"):
        mindyn.write_mat(robot, tmp_path / "taken.mat")
    with raises(InputError, Code.WRONG_TYPE, "model"):
        mindyn.write_mat("planar2", tmp_path / "arm.mat")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.mat"]
