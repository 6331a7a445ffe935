"""Exported C and its C++ header: gcc and clang build them without a warning, sanitizers find nothing, results agree."""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close

import mindyn

COMPILERS = {"gcc": "g++", "clang": "clang++"}
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wdouble-promotion", "-Wshadow"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
FUNCTIONS = ["inverse_dynamics", "inertia_matrix", "gravity", ("geometric_jacobian", "link6")]
Q, QD, QDD = np.array([[0.3, -0.4, 0.7, 0.1, -1.2, 2.0], [1.0, 0.5, -0.2, 3e6, 0.1, -0.3], [0.2, 0.1, 4.0, -1, 0.5, 1]])

PROGRAM = """
@EIGEN@
#include "arm.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

static bool counting = false;
static int allocations = 0;
void *operator new(std::size_t size)
{
  allocations += counting;
  void *const found = std::malloc(size);
  if (!found) std::abort();
  return found;
}
void operator delete(void *given) noexcept { std::free(given); }
void operator delete(void *given, std::size_t) noexcept { std::free(given); }

static_assert(arm::joint_count == 6 && arm::joint_count == ARM_JOINT_COUNT, "the number of joints is a constant");

template <class Numbers>
static void print(const Numbers &numbers)
{
  for (const double one : numbers) std::printf("%.17g ", one);
}

int main()
{
  const std::array<double, 6> q{@Q@}, qd{@QD@}, qdd{@QDD@};
  counting = true;
  const auto tau = arm::inverse_dynamics(q, qd, qdd);
  std::array<double, 6> G{};
  arm::gravity(q, G);
  const auto M = arm::inertia_matrix(q);
  const auto J = arm::geometric_jacobian_link6(q);
#if defined(EIGEN_WORLD_VERSION)
  const Eigen::Map<const Eigen::Matrix<double, 6, 1>> x(q.data());
  const auto Me = arm::inertia_matrix(x);
  for (int i = 0; i < 6; ++i)
    for (int k = 0; k < 6; ++k)
      if (Me(i, k) != M[static_cast<std::size_t>(6 * i + k)]) return 2;
  counting = false;
  const Eigen::VectorXd dynamic = x;
  counting = true;
  if (arm::gravity(dynamic) != Eigen::Map<const Eigen::Matrix<double, 6, 1>>(G.data())) return 3;
#endif
  counting = false;
  print(tau);
  print(G);
  print(M);
  print(J);
  if (std::strcmp(arm::mindyn_version, ARM_MINDYN_VERSION) != 0) return 4;
  return allocations;
}
"""


def eigen_folder() -> Path | None:
    package = find_spec("cmeel")
    folder = (
        Path(package.origin).parents[1] / "cmeel.prefix" / "include" / "eigen3" if package and package.origin else None
    )
    return folder if folder and folder.is_dir() else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cpp")
    model = mindyn.compile_model(mindyn.load_robot("puma560"), with_drives=True)
    model.write_c(directory / "arm.hpp", FUNCTIONS)
    numbers = {"Q": Q, "QD": QD, "QDD": QDD}
    text = PROGRAM
    for name, values in numbers.items():
        text = text.replace(f"@{name}@", ", ".join(map(repr, values.tolist())))
    (directory / "plain.cpp").write_text(text.replace("@EIGEN@", ""))
    (directory / "eigen.cpp").write_text(text.replace("@EIGEN@", "#include <Eigen/Core>"))
    expected = [model.inverse_dynamics(Q, QD, QDD), model.gravity(Q), model.inertia_matrix(Q).ravel()]
    expected.append(model.geometric_jacobian(Q, "link6").ravel())
    return directory, np.concatenate(expected)


def compile_program(compiler: str, *arguments: str, folder: Path) -> None:
    done = subprocess.run([compiler, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
    if "sanitize" in done.stderr and "cannot find" in done.stderr:
        pytest.skip(f"{compiler} has no sanitizers on this machine")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("standard", "program"), [("c++20", "plain"), ("c++17", "eigen")])
@pytest.mark.parametrize("c", COMPILERS)
def test_the_cpp_header_gives_the_kernels_numbers_and_allocates_nothing(folder, c, standard, program):
    directory, expected = folder
    if shutil.which(c) is None or shutil.which(COMPILERS[c]) is None:
        pytest.skip(f"no {c} on this machine")
    eigen = eigen_folder()
    if program == "eigen" and eigen is None:
        pytest.skip("no Eigen on this machine")
    include = [f"-isystem{eigen}"] if program == "eigen" else []
    compile_program(c, "-std=c99", *WARNINGS, *SANITIZERS, "-c", "arm.c", "-o", "arm.o", folder=directory)
    sources = [f"{program}.cpp", "arm.o", "-lm", "-o", program]
    compile_program(COMPILERS[c], f"-std={standard}", *WARNINGS, *SANITIZERS, *include, *sources, folder=directory)
    done = subprocess.run([directory / program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert_close([float(word) for word in done.stdout.split()], expected, SAME_ALGEBRA)


def test_names_have_the_file_name_as_prefix_by_default(tmp_path):
    model = mindyn.compile_model(mindyn.load_robot("planar2"))
    for given, name in ((None, "my_arm_gravity"), ("left_", "left_gravity"), ("", "gravity")):
        _, header = model.write_c(tmp_path / "my-arm.c", "gravity", prefix=given)
        assert f"void {name}(const double *q, double *tau);" in header.read_text()
    files = model.write_c(tmp_path / "std.hpp", "gravity", facts=[("ESTIMATE_DATE", "today")])
    assert [path.name for path in files] == ["std.c", "std.h", "std.hpp"]
    text = files[2].read_text()
    assert "namespace std_ {" in text
    assert 'inline constexpr const char *estimate_date = "today";' in text
