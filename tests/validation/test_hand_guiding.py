"""Hand guiding never drives: the arm gains no energy from the torque despite errors of the estimate."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from messages import messages
from typer.testing import CliRunner

import mindyn
from mindyn.cli.main import app
from mindyn.contact.guiding import HandGuide, hand_guiding
from mindyn.export.controller_code import write_hand_guiding_c
from mindyn.feasibility.full_model import full_model
from mindyn.kernels.model import compile_model
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import Drive

PANDA = mindyn.load_robot("panda")
ROBOT = replace(PANDA, drives=tuple(Drive(j, 1.0, {}, 0.05, 0.6, 1.5, 0.1, "joint") for j in PANDA.joint_names))
N, RATE = ROBOT.joint_count, 200.0


@pytest.fixture(scope="module")
def estimate():
    rng, logs = np.random.default_rng(0), []
    for _ in range(5):
        t = np.arange(int(10 * RATE)) / RATE
        w, p = 2 * np.pi * rng.uniform(0.1, 0.5, N), rng.uniform(0, 6, N)
        phase = t[:, None] * w + p
        q = np.array([0, 0, 0, -1.5, 0, 1.8, 0]) + 0.6 * np.sin(phase)
        qd, qdd = 0.6 * w * np.cos(phase), -0.6 * w**2 * np.sin(phase)
        tau = compile_model(ROBOT, drives=True).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.2, q.shape)
        logs.append(mindyn.log_from_arrays(ROBOT.joint_names, t, q, tau, qd))
    equation_settings = EquationSettings(mindyn.Conditioning(position_cutoff_hz=20.0), friction=Friction("sign"))
    return mindyn.identify(ROBOT, logs, mindyn.LeastSquares(covariance="correlated"), equation_settings)


@pytest.fixture(scope="module")
def guide(estimate):
    model = compile_model(full_model(estimate, friction="fitted", force=True), drives=True)
    return HandGuide(model, hand_guiding(estimate))


def test_the_compensation_is_below_the_certain_friction_and_most_of_it(guide):
    part = guide.part
    assert (part.coulomb > 0.5 * 1.5).all()
    assert (part.coulomb + part.holding_uncertainty <= part.friction + 1e-12).all()
    assert (part.friction < 1.5 + 0.6 * 0.02).all()


def test_the_arm_gains_no_energy_from_the_torque_of_hand_guiding(guide):
    """dE/dt = qd (tau - h - f) with the true holding torque and friction, at states over the whole workspace."""
    rng, true = np.random.default_rng(1), compile_model(ROBOT, drives=True)
    low, high = (np.array([getattr(j.limits, end) for j in ROBOT.joints]) for end in ("lower", "upper"))
    for _ in range(500):
        q, qd = rng.uniform(low, high), rng.normal(0, 1, N) * rng.choice([0.01, 0.3, 1.0])
        holding = true.bias(q, np.zeros(N))
        friction = 0.6 * qd + 1.5 * np.sign(qd)
        assert qd @ (guide.torque(q, qd) - holding - friction) < 0


def test_an_arm_let_go_stays_and_a_hand_moves_it_with_less(guide):
    """Simulated: at rest nothing moves; the push that is needed is a part of the arm's own friction."""
    rng, true = np.random.default_rng(2), compile_model(ROBOT, drives=True)
    low, high = (np.array([getattr(j.limits, end) for j in ROBOT.joints]) for end in ("lower", "upper"))
    for q in rng.uniform(low, high, (100, N)):
        left = guide.torque(q, np.zeros(N)) - true.bias(q, np.zeros(N))
        assert (np.abs(left) < 1.5).all()  # static friction holds what is wrong
        moving = np.full(N, 0.2)
        needed = true.bias(q, np.zeros(N)) + 0.6 * moving + 1.5 - guide.torque(q, moving)
        assert (needed < 0.6 * (0.6 * moving + 1.5)).all()


def test_the_c_gives_the_same_torque(tmp_path, guide, estimate):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    model = compile_model(full_model(estimate, friction="fitted", force=True), drives=True)
    write_hand_guiding_c(model, guide.part, tmp_path / "arm.c")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "arm_hand_guiding.h"\n'
        f"int main(void) {{ double v[{2 * N}], tau[{N}];\n"
        f"while (fread(v, sizeof v, 1, stdin)) {{ arm_hand_guiding(v, v + {N}, tau);\n"
        "fwrite(tau, sizeof tau, 1, stdout); }\nreturn 0; }\n"
    )
    flags = ["-std=c99", "-O1", "-Wall", "-Werror", "-o", "main", "main.c", "arm.c", "-lm"]
    subprocess.run([compiler, *flags], cwd=tmp_path, check=True)
    states = np.random.default_rng(3).normal(0, 1, (50, 2 * N))
    out = subprocess.run([tmp_path / "main"], input=states.tobytes(), capture_output=True, check=True).stdout
    expected = np.array([guide.torque(row[:N], row[N:]) for row in states])
    assert_close(np.frombuffer(out).reshape(-1, N), expected, SAME_ALGEBRA)


def test_an_estimate_with_unidentifiable_friction_compensates_none(tmp_path, estimate):
    wide = replace(estimate, covariance=1e6 * estimate.covariance)
    part = hand_guiding(wide)
    assert not part.coulomb.any()
    assert not part.viscous.any()
    assert "no friction is compensated at joint1, joint2" in str(messages(part)[0])
    wide.save(tmp_path / "estimate.json")
    words = ["export", str(tmp_path / "estimate.json"), "--to", "gravity-compensation", "--force", "--json"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "arm.c")])
    assert done.exit_code == 0
    assert (tmp_path / "arm_hand_guiding.h").is_file()
