"""Hand guiding and the contact detector of robots with closed loops, in Python and in C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_close, assert_negligible

import mindyn
from mindyn.contact.detection import ContactDetector, contact_thresholds
from mindyn.contact.guiding import HandGuide, hand_guiding
from mindyn.equations.loop_closure import home_closure
from mindyn.export.controller_code import write_contact_c, write_hand_guiding_c
from mindyn.kernels.model import compile_model
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings

COULOMB, VISCOUS, PASSIVE = 3.0, 1.0, 0.5
PUSH = 50.0
SIZES = {"slider_crank": 1.0, "parallelogram_planar": 0.3}
"""rad, of the sines in a log."""


@pytest.fixture(scope="module", params=SIZES)
def known(request):
    """The true robot, logs of it and its estimate; passive joints have Coulomb friction, too."""
    robot = mindyn.load_robot(request.param)
    drives = [
        mindyn.Drive(name, viscous=VISCOUS, coulomb=COULOMB if name in robot.primary_names else PASSIVE)
        for name in robot.joint_names
    ]
    robot = replace(robot, drives=tuple(drives), extras=())
    rng, closure, logs = np.random.default_rng(0), home_closure(robot), []
    model, home = compile_model(robot, drives=True), closure.home[list(closure.primary)]
    for _ in range(2):
        t, n = np.arange(0, 12, 0.01), len(home)
        w, phase, size = 2 * np.pi * rng.uniform(0.2, 1.2, (3, n)), rng.uniform(0, 6, (3, n)), SIZES[request.param]
        angle = t[:, None, None] * w + phase
        p, pd = home + size * np.sin(angle).sum(axis=1), (size * w * np.cos(angle)).sum(axis=1)
        tau = model.inverse_dynamics(p, pd, -(size * w**2 * np.sin(angle)).sum(axis=1))
        tau += 0.05 * rng.normal(size=tau.shape)
        logs.append(mindyn.log_from_arrays(robot.primary_names, t, p, tau, pd))
    equation_settings = EquationSettings(
        mindyn.Conditioning(position_cutoff_hz=None, delay_s=0.0), friction=Friction("sign")
    )
    return robot, logs, mindyn.identify(robot, logs, mindyn.LeastSquares(), equation_settings)


@pytest.fixture(scope="module")
def guide(known):
    model = compile_model(mindyn.full_model(known[2], friction="fitted", force=True), drives=True)
    return HandGuide(model, hand_guiding(known[2]))


def test_the_linkage_gains_no_energy_from_the_torque(known, guide):
    """Power of the torque less that of gravity and of all friction, passive joints' too, in closed states."""
    robot, _, _ = known
    closure, true, rng = home_closure(robot), compile_model(robot, drives=True), np.random.default_rng(1)
    home = closure.home[list(closure.primary)]
    assert (guide.part.coulomb > 0).any()
    p = home + rng.uniform(-0.3, 0.3, (60, len(home)))
    pd = rng.normal(size=p.shape) * rng.choice([0.01, 0.3, 1.0], (60, 1))
    rest, rigid = np.zeros_like(pd), compile_model(robot)
    holding = true.bias(p, rest)
    friction = true.bias(p, pd) - holding - (rigid.bias(p, pd) - rigid.bias(p, rest))
    given = np.array([guide.torque(*item) for item in zip(p, pd, strict=True)])
    assert ((pd * (given - holding)).sum(axis=1) < (pd * friction).sum(axis=1)).all()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_gives_the_same(known, guide, tmp_path):
    """The torque of hand guiding, and residual and alarms of the detector, row by row."""
    robot, logs, result = known
    model = compile_model(mindyn.full_model(result, friction="fitted", force=True), drives=True)
    thresholds = contact_thresholds(result, logs)
    write_hand_guiding_c(model, guide.part, tmp_path / "guide.c")
    write_contact_c(model, thresholds, tmp_path / "watch.c")
    text = '#include "guide_hand_guiding.h"\n#include "watch_contact.h"\n'
    text += "int guide(double *q, double *u, double *tau) { return guide_hand_guiding(q, u, tau); }\n"
    text += "static watch_contact_state s;\nint watch(double *q, double *u, double *tau, double *r, int *alarm)\n"
    text += "{ return watch_contact(&s, q, u, tau, 0.01, r, alarm); }\n"
    (tmp_path / "both.c").write_text(text)
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "both.so"]
    subprocess.run(["cc", *flags, "both.c", "guide.c", "watch.c", "-lm"], cwd=tmp_path, check=True)
    both = ctypes.CDLL(str(tmp_path / "both.so"))
    solved = home_closure(robot).affine is None
    log, detector = logs[0], ContactDetector(model, thresholds, 0.01)
    whole = home_closure(robot).along(log.q[:20]) if solved else log.q[:20]
    tau, residual, alarm = np.zeros(log.q.shape[1]), np.zeros(log.q.shape[1]), np.zeros(log.q.shape[1], dtype=np.int32)

    def call(function, *arrays):
        return function(*(np.ascontiguousarray(array).ctypes.data_as(ctypes.c_void_p) for array in arrays))

    for q, p, pd, push in zip(whole, log.q[:20], log.qd[:20], log.tau[:20] + PUSH, strict=True):
        assert call(both.guide, q, pd, tau) == 0
        assert_close(tau, guide.torque(p, pd), ORACLE)
        call(both.watch, q, pd, push, residual, alarm)
        assert (alarm == detector.update(p, pd, push)).all()
        assert_negligible(residual - detector.residual, PUSH, ORACLE)
    assert alarm.any()
    if solved:
        open_loops = whole[0] + 0.7 * ~np.isin(robot.joint_names, robot.primary_names)
        assert call(both.guide, open_loops, log.qd[0], tau) == -1
