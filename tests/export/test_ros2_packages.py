"""A ROS 2 package builds with CMake, its functions equal the kernels, and it uses ament if available."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from xml.etree import ElementTree

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, ExportError, InputError
from mindyn.output.export.ros2_package import CONTROL_FUNCTIONS

needs_cmake = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("gcc") is None, reason="no cmake or gcc on this machine"
)

AMENT = """\
macro(ament_export_targets)
  file(APPEND "${CMAKE_BINARY_DIR}/ament.txt" "targets ${ARGN}\\n")
endmacro()
macro(ament_package)
  file(APPEND "${CMAKE_BINARY_DIR}/ament.txt" "package ${PROJECT_NAME}\\n")
endmacro()
"""
"""Stands in for ament and records its calls."""

USER = """\
cmake_minimum_required(VERSION 3.12)
project(user LANGUAGES C)
find_package(arm_dynamics REQUIRED)
add_executable(user user.c)
target_link_libraries(user arm_dynamics::arm_dynamics)
"""
USER_C = """\
#include <stdio.h>
#include "arm_dynamics/arm_dynamics.h"
int main(void)
{
  const double q[2] = {0.3, -0.4};
  double g[2];
  arm_dynamics_gravity(q, g);
  return printf("%.17g %.17g", g[0], g[1]) < 0;
}
"""


def cmake(*arguments: object) -> None:
    done = subprocess.run(["cmake", *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stderr


def build_package(package, build, *options: str) -> None:
    cmake("-S", package, "-B", build, "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror -pedantic", *options)
    cmake("--build", build)


@needs_cmake
def test_functions_of_the_library_equal_the_kernels(tmp_path):
    robot = mindyn.load_robot("puma560")
    model = mindyn.compile_model(robot, with_drives=True)
    mindyn.write_ros2_package(model, tmp_path / "puma_dynamics")
    build_package(tmp_path / "puma_dynamics", tmp_path / "build")
    (shared,) = (path for path in (tmp_path / "build").glob("libpuma_dynamics.*"))
    library = ctypes.CDLL(str(shared))
    n, rng = robot.joint_count, np.random.default_rng(0)
    for name in CONTROL_FUNCTIONS:
        kernel = model.kernel(name)
        given = [rng.uniform(-2, 2, n) for _ in kernel.input_shapes]
        expected = kernel(*given)
        out = np.full(expected.shape, np.nan)
        arrays = [ctypes.c_void_p(array.ctypes.data) for array in (*given, out)]
        getattr(library, f"puma_dynamics_{name}")(*arrays)
        assert_close(out, expected, SAME_ALGEBRA)


@needs_cmake
def test_another_project_finds_the_installed_library(tmp_path):
    robot = mindyn.load_robot("planar2")
    mindyn.write_ros2_package(robot, tmp_path / "package", name="arm_dynamics")
    build_package(tmp_path / "package", tmp_path / "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'there'}")
    cmake("--install", tmp_path / "build")
    (tmp_path / "CMakeLists.txt").write_text(USER)
    (tmp_path / "user.c").write_text(USER_C)
    build_package(tmp_path, tmp_path / "user", f"-DCMAKE_PREFIX_PATH={tmp_path / 'there'}")
    done = subprocess.run([tmp_path / "user" / "user"], capture_output=True, text=True, check=True, timeout=60)
    expected = mindyn.compile_model(robot).gravity(np.array([0.3, -0.4]))
    assert_close([float(word) for word in done.stdout.split()], expected, SAME_ALGEBRA)


@needs_cmake
def test_the_package_is_an_ament_package_if_ament_is_found(tmp_path):
    mindyn.write_ros2_package(mindyn.load_robot("planar2"), tmp_path / "arm_dynamics")
    (tmp_path / "ament").mkdir()
    (tmp_path / "ament" / "ament_cmakeConfig.cmake").write_text(AMENT)
    cmake("-S", tmp_path / "arm_dynamics", "-B", tmp_path / "build", f"-Dament_cmake_DIR={tmp_path / 'ament'}")
    calls = (tmp_path / "build" / "ament.txt").read_text()
    assert calls == "targets export_arm_dynamics;HAS_LIBRARY_TARGET\npackage arm_dynamics\n"


def test_package_xml_has_the_required_entries(tmp_path):
    robot = mindyn.load_robot("planar2")
    who = {"maintainer": "A & B", "email": "a@example.com", "license": "MIT"}
    mindyn.write_ros2_package(robot, tmp_path / "arm_dynamics", **who)
    package = ElementTree.parse(tmp_path / "arm_dynamics" / "package.xml").getroot()
    assert package.get("format") == "3"
    assert [child.tag for child in package][:5] == ["name", "version", "description", "maintainer", "license"]
    assert package.findtext("name") == "arm_dynamics"
    assert package.findtext("maintainer") == "A & B"
    assert package.find("maintainer").get("email") == "a@example.com"
    assert package.findtext("export/build_type") == package.findtext("buildtool_depend") == "ament_cmake"
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    files = ("package.xml", "CMakeLists.txt", "README.md", "src/arm_dynamics.c")
    files += ("include/arm_dynamics/arm_dynamics.h", "include/arm_dynamics/arm_dynamics.hpp")
    assert written == {f"arm_dynamics/{name}" for name in files}
    readme = (tmp_path / "arm_dynamics" / "README.md").read_text()
    assert all(f"arm_dynamics_{name}(" in readme for name in CONTROL_FUNCTIONS)
    assert "@" not in readme


@pytest.mark.parametrize("name", ["Arm", "2arm", "arm-dynamics", "arm__x", "arm_", "", "arm dynamics"])
def test_invalid_package_names_are_rejected(tmp_path, name):
    with raises(InputError, Code.INVALID_VALUE, name):
        mindyn.write_ros2_package(mindyn.load_robot("planar2"), tmp_path / "arm", name=name)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_package_leaves_no_files(tmp_path, monkeypatch):
    robot = mindyn.load_robot("planar2")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").touch()
    with raises(ExportError, Code.DUPLICATE, "taken"):
        mindyn.write_ros2_package(robot, tmp_path / "taken")
    with raises(ExportError, Code.MISSING_FILE, str(tmp_path / "no")):
        mindyn.write_ros2_package(robot, tmp_path / "no" / "arm")
    with raises(mindyn.MindynError, Code.UNKNOWN_NAME, "magic"):
        mindyn.write_ros2_package(robot, tmp_path / "arm", functions=("magic",))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with raises(ExportError, Code.NOT_WRITABLE, "arm"):
        mindyn.write_ros2_package(robot, tmp_path / "arm")
    assert [path.name for path in tmp_path.rglob("*")] == ["taken", "mine.txt"]
