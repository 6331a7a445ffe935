"""A friction law of the user goes from the fit to file, report, C and other machine code; what cannot is rejected."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code
from mindyn.robots import FrictionLaw
from mindyn.robots.friction_laws import FRICTION_LAWS

CREEP = FrictionLaw("creep", "s * log(1 + abs(u) / speed)", constants={"speed": 0.05}, words="creeps")
DIP = FrictionLaw("dip", "s * exp(-(u / 0.2) ** 2)")
WIDTH = 0.03
COEFFICIENTS = (1.5, 0.7)


@pytest.fixture(scope="module")
def arm():
    return replace(mindyn.load_robot("planar2"), drives=())


def record(arm, law, seed=0):
    """Return a log whose friction follows a law, evaluated by NumPy, and its motion."""
    rng, t = np.random.default_rng(seed), np.arange(0, 20, 0.01)
    phases = rng.uniform(0, 6, (5, 2))
    motion = mindyn.SineMotion(np.zeros(2), np.full((5, 2), 0.4), np.linspace(0.1, 0.9, 10).reshape(5, 2), phases)
    q, qd, qdd = motion.rows(t)
    tau = mindyn.compile_model(arm).inverse_dynamics(q, qd, qdd)
    tau += np.array(COEFFICIENTS) * law.values(qd, np.tanh(qd / WIDTH))
    return mindyn.log_from_arrays(arm.joint_names, t, q, tau, qd), (q, qd, qdd)


@pytest.fixture(scope="module", params=[CREEP, DIP], ids=lambda law: law.name)
def fitted(request, arm):
    law = request.param
    log, motion = record(arm, law)
    settings = mindyn.EquationSettings(None, "auto", "auto", mindyn.Friction("tanh", WIDTH, (law,)))
    return law, mindyn.identify(arm, log, mindyn.LeastSquares(), settings), log, motion


def test_a_fit_finds_the_coefficients(fitted):
    law, estimate, *_ = fitted
    values = [estimate.value(f"f_{law.name}{k}") for k in (1, 2)]
    assert np.allclose(values, COEFFICIENTS, rtol=0.05)
    assert estimate.uncertainty.friction_curves
    curve = estimate.uncertainty.friction_curves[0]
    true = COEFFICIENTS[0] * law.values(curve.speed, np.sign(curve.speed))
    assert np.abs(curve.torque - true).max() < 0.1 * COEFFICIENTS[0]


def test_a_consistent_fit_keeps_the_law(arm):
    log, _ = record(arm, CREEP)
    settings = mindyn.EquationSettings(None, "auto", "auto", mindyn.Friction("tanh", WIDTH, (CREEP,)))
    estimate = mindyn.identify(arm, log, mindyn.PhysicallyConsistent(), settings)
    assert np.allclose([estimate.value("f_creep1"), estimate.value("f_creep2")], COEFFICIENTS, rtol=0.05)


def test_files_and_machine_code_have_the_same_torque(fitted, tmp_path):
    law, estimate, log, motion = fitted
    path = estimate.save(tmp_path / "run.json")
    loaded = mindyn.load_estimate(tmp_path / "run.json" if path is None else path)
    assert loaded.settings.shape.laws == (law,)
    assert np.array_equal(loaded.predict(*motion), estimate.predict(*motion))
    robot = mindyn.build_full_model(
        estimate, friction_at_zero="fitted", force=True
    )  # viscous friction is -0.03 +- 0.03
    kernel = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(*motion)
    assert np.abs(kernel - estimate.predict(*motion)).max() < 0.02 * np.abs(log.tau).max()
    mindyn.write_toml(robot, tmp_path / "run.toml")
    again = mindyn.compile_model(mindyn.load_robot(tmp_path / "run.toml"), with_drives=True).inverse_dynamics(*motion)
    assert np.allclose(again, kernel, rtol=1e-9, atol=1e-9)
    if shutil.which("gcc") is None:
        pytest.skip("no gcc on this machine")
    mindyn.compile_model(robot, with_drives=True).write_c(tmp_path / "arm.c")
    command = ["gcc", "-shared", "-fPIC", "-O1", tmp_path / "arm.c", "-lm", "-o", tmp_path / "arm.so"]
    subprocess.run(command, check=True)
    function = ctypes.CDLL(str(tmp_path / "arm.so")).arm_inverse_dynamics
    for row in range(0, len(kernel), 200):
        tau, arrays = np.empty(2), [np.ascontiguousarray(array[row]) for array in motion]
        function(*(ctypes.c_void_p(array.ctypes.data) for array in (*arrays, tau)))
        assert np.allclose(tau, kernel[row], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: FrictionLaw("creep", lambda u, s: s * u), Code.WRONG_TYPE),
        (lambda: FrictionLaw("creep friction", "u"), Code.INVALID_VALUE),
        (lambda: FrictionLaw("creep", "log(abs(u))"), Code.NOT_FINITE),
        (lambda: mindyn.Friction("tanh", 0.1, (replace(CREEP, name="stribeck"),)), Code.DUPLICATE),
        (lambda: mindyn.Friction("tanh", 0.1, (FrictionLaw("heavy", "abs(load) * s * abs(u)"),)), Code.UNSUPPORTED),
        (lambda: mindyn.Friction("tanh", 0.1, ("creep",)), Code.INVALID_VALUE),
        (lambda: FrictionLaw("creep", "u +"), Code.INVALID_VALUE),
        (lambda: FrictionLaw("creep", "__import__('os')"), Code.UNSUPPORTED),
    ],
)
def test_laws_that_no_file_can_hold_are_rejected(make, code):
    with raises(mindyn.MindynError, code):
        make()


def test_built_in_laws_cannot_be_changed():
    with pytest.raises(TypeError):
        FRICTION_LAWS["creep"] = CREEP  # type: ignore[index]


def test_two_laws_of_one_name_are_not_confused(arm):
    """Selection shares columns of several frictions by name: the constants are a part of it."""
    log, _ = record(arm, CREEP)
    estimates = [
        mindyn.identify(
            arm,
            log,
            mindyn.LeastSquares(),
            mindyn.EquationSettings(
                None, "auto", "auto", mindyn.Friction("tanh", WIDTH, (CREEP.with_constants(speed=v),))
            ),
        )
        for v in (0.05, 0.5)
    ]
    assert estimates[0].data.residuals[0].rms < estimates[1].data.residuals[0].rms
