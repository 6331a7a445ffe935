"""The plugin of inverse_dynamics_solver, compiled with its documented declarations, gives the torques of the kernels.

`solver_interface` replaces ROS 2.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from closeness import PUBLISHED_FILE, assert_close
from kernels.test_cpp import WARNINGS, eigen_folder
from logs.real_sets import needs_real_data, real_log, real_robot
from raising import raises
from robots import with_random_drives

import mindyn
from mindyn.errors import Code, ExportError
from mindyn.export.ros2_package import solver_terms
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


def replayed(model, q, qd, qdd, folder):
    """Return torques with friction of the plugin along a motion, from a program built in the folder."""
    mindyn.write_ros2_package(model, folder / "arm", solver=True)
    (folder / "replay.cpp").write_text(REPLAY)
    include = ["-I", "arm/include", "-I", str(INTERFACE), f"-isystem{eigen_folder()}"]
    subprocess.run(["gcc", *WARNINGS, "-I", "arm/include", "-c", "arm/src/arm.c"], cwd=folder, check=True)
    sources = ["arm/src/arm_solver.cpp", "replay.cpp", "arm.o", "-o", "replay"]
    subprocess.run(["g++", "-std=c++17", *WARNINGS, *include, *sources], cwd=folder, check=True)
    rows = "\n".join(" ".join(map(repr, row)) for row in np.hstack([q, qd, qdd]).tolist())
    command = [folder / "replay", str(q.shape[1])]
    done = subprocess.run(command, input=rows, capture_output=True, text=True, check=True, timeout=120)
    return np.array(done.stdout.split(), float).reshape(q.shape)


@needs_compiler
@needs_real_data
def test_the_plugin_gives_the_torques_of_the_estimate_on_a_measured_log(tmp_path):
    """Use a log of a UR10 in MINDYN_REAL_DATA, with friction, rotors and offsets identified by least squares."""
    robot, log = real_robot("ur10_unisa"), real_log("ur10_unisa", "ur10_exciting_trajectory.csv")
    settings = mindyn.Conditioning(rate_hz=125.0, position_cutoff_hz=5.0, decimation=2, edge_s=0.1)
    smooth = mindyn.EquationSettings(settings, friction=mindyn.Friction("tanh", 0.05))
    estimate = mindyn.identify(robot, log.between(0, 1720), mindyn.LeastSquares(), smooth)
    model = mindyn.compile_model(mindyn.full_model(estimate, friction="fitted", force=True), drives=True)
    s = mindyn.condition(robot, [log], settings).samples
    tau = replayed(model, s.q, s.qd, s.qdd, tmp_path)
    assert_close(tau, model.inverse_dynamics(s.q, s.qd, s.qdd), PUBLISHED_FILE)
    trained = slice(0, 850)
    assert np.linalg.norm(tau[trained] - s.tau[trained]) < 0.1 * np.linalg.norm(s.tau[trained])


@needs_compiler
def test_springs_and_offsets_are_in_the_gravity_term_and_friction_depends_on_speed(tmp_path):
    robot = mindyn.load_robot("stanford")
    drives = tuple(Drive(name, 50.0, {}, 1e-4, 0.3, 0.2, 0.1, "joint") for name in robot.joint_names)
    extras = (
        ExtraTorque("spring", robot.joint_names[1], "sin(q) * q3", 2.0),
        ExtraTorque("stribeck", robot.joint_names[0], "tanh(qd / 0.01) * exp(-qd * qd)", 0.4),
    )
    model = mindyn.compile_model(replace(robot, drives=drives, extras=extras), drives=True)
    q, qd, qdd = np.random.default_rng(2).uniform(-2, 2, (3, 5, 6))
    assert_close(replayed(model, q, qd, qdd, tmp_path), model.inverse_dynamics(q, qd, qdd), PUBLISHED_FILE)


@needs_compiler
def test_mimic_joints_are_projected_onto_the_primary_joints(tmp_path):
    model = mindyn.compile_model(with_random_drives(mindyn.load_robot("parallelogram_scara"), 1), drives=True)
    q, qd, qdd = np.random.default_rng(2).uniform(-1, 1, (3, 5, model.robot.joint_count))
    assert_close(replayed(model, q, qd, qdd, tmp_path), model.inverse_dynamics(q, qd, qdd), PUBLISHED_FILE)


def test_robots_that_the_interface_cannot_express_are_rejected():
    robot = mindyn.load_robot("planar2")
    mixed = ExtraTorque("sticky", "joint1", "qd * sin(q2)", 0.4)
    with raises(ExportError, Code.UNSUPPORTED, "planar2") as raised:
        solver_terms(mindyn.compile_model(replace(robot, extras=(mixed,)), drives=True))
    assert "'sticky'" in raised.value.message
    with raises(ExportError, Code.UNSUPPORTED, "five_bar"):
        solver_terms(mindyn.compile_model(mindyn.load_robot("five_bar")))
