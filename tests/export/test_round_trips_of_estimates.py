"""Estimates in every format, read by other tools: the torques agree, minus the parts that the format omits.

| format     | read by              | omitted                                 | friction                              |
|------------|----------------------|-----------------------------------------|---------------------------------------|
| URDF       | MuJoCo               | rotors, offsets, extra torques          | dry friction smoothed near standstill |
| URDF       | Pinocchio            | rotors, offsets, extra torques          | not in rnea                           |
| MJCF       | MuJoCo               | offsets, extra torques                  | dry friction smoothed near standstill |
| Pinocchio  | Pinocchio            | (offsets, extra torques are rejected)   | not in rnea                           |
| TOML       | mindyn               | nothing                                 | sign                                  |
| C, C++     | gcc, clang, g++, ... | nothing                                 | as fitted: sign or tanh               |

CUDA is tested in kernels/test_cuda_on_cpu.py and, with a device, in kernels/test_on_gpu.py.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from closeness import DERIVATIVE, PUBLISHED_FILE, assert_close
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, ExportError
from mindyn.output.export.mujoco_comparison import mujoco_torques
from mindyn.regression.friction import Friction
from mindyn.robots.parts import Drive, ExtraTorque

COMPILERS = ("gcc", "clang", "g++", "clang++")


def simulate_estimate(friction: Friction):
    """Return an estimate of a Panda from noisy torques, and motions for the comparison."""
    robot, rng = mindyn.load_robot("panda"), np.random.default_rng(7)
    drives = tuple(
        Drive(name, (-1) ** k * 80.0, {}, 2e-4 + 1e-4 * k, 0.3, 0.4 + 0.1 * k, 0.2 - 0.1 * k, "joint")
        for k, name in enumerate(robot.joint_names)
    )
    arm = replace(robot, drives=drives, extras=(ExtraTorque("spring", robot.joint_names[1], "sin(q)", 3.0),))
    q, qd, qdd = rng.uniform(-1.5, 1.5, (3, 800, 7))
    tau = mindyn.compile_model(arm, with_drives=True).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.01, q.shape)
    samples = mindyn.Samples(arm.joint_names, q, qd, qdd, tau, 100.0, np.zeros(len(q), int))
    settings = mindyn.EquationSettings(drive_parameters="stated", friction=friction)
    estimate = mindyn.LeastSquares().fit(mindyn.build_rows(arm, samples, settings))
    return estimate, q[:40], qd[:40], qdd[:40], estimate.predict(samples)[:40]


@pytest.fixture(scope="module")
def plain():
    return simulate_estimate(Friction())


def terms(full, q, qd, qdd):
    """Torques of rotors, viscous and dry friction, offsets and extra torques at the joints, each (N, n), by hand."""
    ratio, inertia, viscous, dry, offset = np.transpose(
        [(d.ratio, d.rotor_inertia, d.viscous, d.coulomb, d.offset) for d in full.drives]
    )
    spring = np.zeros_like(q)
    spring[:, 1] = full.extras[0].coefficient * np.sin(q[:, 1])
    return {
        "rotor inertia": ratio**2 * inertia * qdd,
        "viscous": viscous * qd,
        "dry": dry * np.sign(qd),
        "torque offset": offset + 0 * q,
        "extra torque": spring,
    }


def comment_in(path):
    """Return the first comment of an XML file."""
    return re.search(r"<!--(.*?)-->", path.read_text(), re.DOTALL)[1]


def numbers_in(comment, what):
    """Return the numbers after the names of joints in the sentence about `what`, in their order."""
    (sentence,) = [part for part in re.split(r"; |: the |(?<=\.) (?=[A-Z])", comment) if what in part and "'" in part]
    return [float(number) for number in re.findall(r"' \(?(-?[\d.e+-]+)", sentence)]


def pinocchio_torques(model, q, qd, qdd):
    data = model.createData()
    return np.array([pin.rnea(model, data, *row) for row in zip(q, qd, qdd, strict=True)])


def without_dry_friction(path):
    """Write a copy of the file without dry friction, which MuJoCo regularises."""
    other = path.with_stem("frictionless")
    other.write_text(re.sub(r' (friction|frictionloss)="[^"]+"', r' \1="0"', path.read_text()))
    return other


def of_urdf_in_mujoco(estimate, full, folder, q, qd, qdd):
    path = mindyn.write_urdf(estimate, folder / "arm.urdf", meshes=False)
    return mujoco_torques(full, without_dry_friction(path), q, qd, qdd), comment_in(path)


def of_urdf_in_pinocchio(estimate, full, folder, q, qd, qdd):  # noqa: ARG001
    path = mindyn.write_urdf(estimate, folder / "arm.urdf")
    return pinocchio_torques(pin.buildModelFromUrdf(str(path)), q, qd, qdd), comment_in(path)


def of_mjcf_in_mujoco(estimate, full, folder, q, qd, qdd):
    path = mindyn.write_mjcf(estimate, folder / "arm.xml")
    return mujoco_torques(full, without_dry_friction(path), q, qd, qdd), comment_in(path)


def of_toml(estimate, full, folder, q, qd, qdd):  # noqa: ARG001
    path = mindyn.write_toml(full, folder / "arm.toml")
    return mindyn.compile_model(mindyn.load_robot(path), with_drives=True).inverse_dynamics(q, qd, qdd), ""


TABLE = {
    "urdf, MuJoCo": (of_urdf_in_mujoco, ("rotor inertia", "torque offset", "extra torque"), ("dry",)),
    "urdf, Pinocchio": (of_urdf_in_pinocchio, ("rotor inertia", "torque offset", "extra torque"), ("viscous", "dry")),
    "mjcf, MuJoCo": (of_mjcf_in_mujoco, ("torque offset", "extra torque"), ("dry",)),
    "toml": (of_toml, (), ()),
}
"""Torques of the written file, parts that the format omits, and parts that the inverse dynamics of the tool ignore."""


@pytest.mark.parametrize("name", TABLE)
def test_torques_of_written_files_equal_the_estimate_without_omitted_parts(plain, name, tmp_path):
    estimate, q, qd, qdd, expected = plain
    way, left_out, uncounted = TABLE[name]
    full = mindyn.build_full_model(estimate)
    back, comment = way(estimate, full, tmp_path, q, qd, qdd)
    parts = terms(full, q, qd, qdd)
    assert_close(back + sum(parts[part] for part in (*left_out, *uncounted)), expected, PUBLISHED_FILE)
    small = {r.joint: 1e-3 * r.rms_torque for r in estimate.data.residuals}  # notes do not name negligible offsets
    offsets = [k for k, p in enumerate(estimate.parameters) if p.kind == "offset"]
    uncertain = {estimate.parameters[k].link_or_joint: 2 * estimate.deviations[k] for k in offsets}
    stated = {
        "rotor inertia": [d.ratio**2 * d.rotor_inertia for d in full.drives],
        "torque offset": [d.offset for d in full.drives if abs(d.offset) >= max(small[d.joint], uncertain[d.joint])],
        "extra torque": [full.extras[0].coefficient],
    }
    for part in left_out:
        assert numbers_in(comment, part) == pytest.approx(stated[part], rel=1e-2)
    assert ("a fit without offsets" in comment) == ("torque offset" in left_out)


def test_pinocchio_converts_what_it_can_express_and_rejects_the_rest(plain):
    estimate, q, qd, qdd, expected = plain
    full = mindyn.build_full_model(estimate)
    with raises(ExportError, Code.UNSUPPORTED, "panda"):
        mindyn.to_pinocchio(full, with_drives=True)
    parts = terms(full, q, qd, qdd)
    bare = replace(full, drives=tuple(replace(drive, offset=0.0) for drive in full.drives), extras=())
    model = mindyn.to_pinocchio(bare, with_drives=True)
    tau = pinocchio_torques(model, q, qd, qdd) + model.damping * qd + model.upperDryFrictionLimit * np.sign(qd)
    assert_close(tau + parts["torque offset"] + parts["extra torque"], expected, PUBLISHED_FILE)


def test_dry_friction_in_mujoco_is_softer_near_standstill_and_never_larger(plain, tmp_path):
    """The documented regularisation: at constant speed MuJoCo's friction is between zero and its full size."""
    estimate, q, qd, _, _ = plain
    full, rest = mindyn.build_full_model(estimate), 0 * q
    mindyn.write_mjcf(estimate, tmp_path / "arm.xml")
    for speed, least, most in ((1e-5, 0.0, 0.9), (10.0, 1.0, 1.0)):
        given = (q, speed * qd, rest)
        files = (tmp_path / "arm.xml", without_dry_friction(tmp_path / "arm.xml"))
        friction = np.subtract(*(mujoco_torques(full, file, *given) for file in files))
        share = friction / terms(full, *given)["dry"]
        assert share.min() > least - DERIVATIVE
        assert share.max() < 1 + DERIVATIVE
        assert share.min() < most + DERIVATIVE


@pytest.mark.parametrize("compiler", COMPILERS)
def test_exported_code_gives_the_torques_of_the_estimate(smooth_code, compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    folder, (_, q, qd, qdd, expected) = smooth_code
    wrapped = compiler.endswith("++")
    objects, language = tmp_path / "arm.o", "clang" if "clang" in compiler else "gcc"
    subprocess.run([language, "-O1", "-fPIC", "-c", folder / "arm.c", "-o", objects], check=True)
    library, command = tmp_path / "arm.so", [compiler, "-shared", "-fPIC", "-O1", "-I", folder]
    (tmp_path / "call.cpp").write_text(CALL)
    sources = [tmp_path / "call.cpp", "-std=c++17"] if wrapped else []
    subprocess.run([*command, *sources, objects, "-lm", "-o", library], check=True)
    function = getattr(ctypes.CDLL(str(library)), "call" if wrapped else "arm_inverse_dynamics")
    tau = np.empty_like(q)
    for row in range(len(q)):
        arrays = [np.ascontiguousarray(array[row]) for array in (q, qd, qdd)]
        function(*(ctypes.c_void_p(array.ctypes.data) for array in (*arrays, tau[row])))
    assert_close(tau, expected, PUBLISHED_FILE)


CALL = """
#include "arm.hpp"
#include <algorithm>
extern "C" void call(const double *q, const double *qd, const double *qdd, double *tau)
{
  std::array<double, 7> x, v, a;
  std::copy(q, q + 7, x.begin());
  std::copy(qd, qd + 7, v.begin());
  std::copy(qdd, qdd + 7, a.begin());
  const auto found = arm::inverse_dynamics(x, v, a);
  std::copy(found.begin(), found.end(), tau);
}
"""


@pytest.fixture(scope="module")
def smooth_code(tmp_path_factory):
    """Write code of an estimate with tanh friction."""
    folder, smooth = tmp_path_factory.mktemp("code"), simulate_estimate(Friction("tanh", 0.1))
    full = mindyn.build_full_model(smooth[0], friction_at_zero="fitted")
    mindyn.compile_model(full, with_drives=True).write_c(folder / "arm.hpp")
    return folder, smooth
