"""The plugin of inverse_dynamics_solver, compiled with its documented declarations, gives the torques of the kernels.

`solver_interface` replaces ROS 2.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from closeness import PUBLISHED_FILE, assert_close
from kernels.test_cpp import WARNINGS, eigen_folder
from raising import raises
from robots import with_random_drives

import mindyn
from mindyn.foundation.errors import Code, ExportError
from mindyn.output.export.solver_plugin import PLUGIN_DEPENDENCIES, solver_terms
from mindyn.robots.parts import Drive, ExtraTorque

INTERFACE = Path(__file__).with_name("solver_interface")
needs_compiler = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("g++") is None or eigen_folder() is None,
    reason="no gcc, g++ or Eigen on this machine",
)

REPLAY = """
#include <cstdio>
#include <inverse_dynamics_solver/inverse_dynamics_solver.hpp>

extern "C" inverse_dynamics_solver::InverseDynamicsSolver *make_plugin();

int main(int, char **arguments)
{
  const int n = std::atoi(arguments[1]);
  const std::unique_ptr<inverse_dynamics_solver::InverseDynamicsSolver> solver(make_plugin());
  solver->initialize();
  try {
    solver->getGravityVector(Eigen::VectorXd::Zero(n + 1));
    return 1;
  } catch (const std::invalid_argument &) {
  }
  Eigen::MatrixXd row(3, n);
  for (;;) {
    for (int i = 0; i < 3; ++i)
      for (int k = 0; k < n; ++k)
        if (std::scanf("%lf", &row(i, k)) != 1) return 0;
    const Eigen::VectorXd q = row.row(0), qd = row.row(1), qdd = row.row(2);
    const Eigen::VectorXd tau = solver->getTorques(q, qd, qdd) + solver->getFrictionVector(qd);
    for (int k = 0; k < n; ++k) std::printf("%.17g ", tau[k]);
  }
}
"""


def program_output(model, source, folder, words, given=""):
    """Return what a program prints that calls the plugin, built in the folder."""
    mindyn.write_ros2_package(model, folder / "arm", solver=True)
    (folder / "main.cpp").write_text(source)
    include = ["-I", "arm/include", "-I", str(INTERFACE), f"-isystem{eigen_folder()}"]
    subprocess.run(["gcc", *WARNINGS, "-I", "arm/include", "-c", "arm/src/arm.c"], cwd=folder, check=True)
    sources = ["arm/src/arm_solver.cpp", "main.cpp", "arm.o", "-o", "main"]
    subprocess.run(["g++", "-std=c++17", *WARNINGS, *include, *sources], cwd=folder, check=True)
    command = [folder / "main", *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=120).stdout


def replayed(model, q, qd, qdd, folder):
    """Return torques with friction of the plugin along a motion."""
    rows = "\n".join(" ".join(map(repr, row)) for row in np.hstack([q, qd, qdd]).tolist())
    return np.array(program_output(model, REPLAY, folder, [str(q.shape[1])], rows).split(), float).reshape(q.shape)


TERMS = """
#include <cstdio>
#include <inverse_dynamics_solver/inverse_dynamics_solver.hpp>

extern "C" inverse_dynamics_solver::InverseDynamicsSolver *make_plugin();

int main()
{
  const std::unique_ptr<inverse_dynamics_solver::InverseDynamicsSolver> solver(make_plugin());
  Eigen::VectorXd q(6);
  for (int k = 0; k < 6; ++k) q[k] = 0.1 * (k + 1);
  const Eigen::VectorXd g = solver->getGravityVector(q);
  const Eigen::MatrixXd M = solver->getInertiaMatrix(q);
  for (int k = 0; k < 6; ++k) std::printf("%.17g ", g[k]);
  for (int i = 0; i < 6; ++i)
    for (int k = 0; k < 6; ++k) std::printf("%.17g ", M(i, k));
}
"""


@needs_compiler
def test_gravity_and_inertia_are_those_of_python(tmp_path):
    robot = mindyn.load_robot("ur10")
    model = mindyn.compile_model(with_random_drives(robot, 3), with_drives=True)
    offset_free = replace(model.robot, drives=tuple(replace(drive, offset=0.0) for drive in model.robot.drives))
    model = mindyn.compile_model(offset_free, with_drives=True)
    values = np.array(program_output(model, TERMS, tmp_path, []).split(), float)
    q = 0.1 * np.arange(1, 7)
    assert_close(values[:6], model.gravity(q), PUBLISHED_FILE)
    assert_close(values[6:].reshape(6, 6), model.inertia_matrix(q), PUBLISHED_FILE)


def test_the_package_declares_the_plugin(tmp_path):
    model = mindyn.load_robot("planar2")
    mindyn.write_ros2_package(model, tmp_path / "arm", solver=True)
    package = ElementTree.parse(tmp_path / "arm" / "package.xml").getroot()
    assert [entry.text for entry in package.findall("depend")] == list(PLUGIN_DEPENDENCIES)
    entry = ElementTree.parse(tmp_path / "arm" / "arm_solver.xml").getroot().find("class")
    assert entry.get("type") == "arm::Solver"
    assert "PLUGINLIB_EXPORT_CLASS(arm::Solver" in (tmp_path / "arm" / "src" / "arm_solver.cpp").read_text()
    assert "Not tried" in (tmp_path / "arm" / "README.md").read_text()
    mindyn.write_ros2_package(model, tmp_path / "plain")
    assert not (tmp_path / "plain" / "plain_solver.xml").exists()
    assert "Not tried" not in (tmp_path / "plain" / "README.md").read_text()


@needs_compiler
def test_springs_and_offsets_are_in_the_gravity_term_and_friction_depends_on_speed(tmp_path):
    robot = mindyn.load_robot("stanford")
    drives = tuple(Drive(name, 50.0, {}, 1e-4, 0.3, 0.2, 0.1, "joint") for name in robot.joint_names)
    extras = (
        ExtraTorque("spring", robot.joint_names[1], "sin(q) * q3", 2.0),
        ExtraTorque("stribeck", robot.joint_names[0], "tanh(qd / 0.01) * exp(-qd * qd)", 0.4),
    )
    model = mindyn.compile_model(replace(robot, drives=drives, extras=extras), with_drives=True)
    q, qd, qdd = np.random.default_rng(2).uniform(-2, 2, (3, 5, 6))
    assert_close(replayed(model, q, qd, qdd, tmp_path), model.inverse_dynamics(q, qd, qdd), PUBLISHED_FILE)


@needs_compiler
def test_mimic_joints_are_projected_onto_the_primary_joints(tmp_path):
    model = mindyn.compile_model(with_random_drives(mindyn.load_robot("parallelogram_scara"), 1), with_drives=True)
    q, qd, qdd = np.random.default_rng(2).uniform(-1, 1, (3, 5, model.robot.joint_count))
    assert_close(replayed(model, q, qd, qdd, tmp_path), model.inverse_dynamics(q, qd, qdd), PUBLISHED_FILE)


def test_robots_that_the_interface_cannot_express_are_rejected():
    robot = mindyn.load_robot("planar2")
    mixed = ExtraTorque("sticky", "joint1", "qd * sin(q2)", 0.4)
    with raises(ExportError, Code.UNSUPPORTED, "planar2") as raised:
        solver_terms(mindyn.compile_model(replace(robot, extras=(mixed,)), with_drives=True))
    assert "'sticky'" in raised.value.message
    with raises(ExportError, Code.UNSUPPORTED, "five_bar"):
        solver_terms(mindyn.compile_model(mindyn.load_robot("five_bar")))
