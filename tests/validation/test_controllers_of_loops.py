"""The contact detector of robots with closed loops, in Python and in C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from closeness import ORACLE, assert_negligible

import mindyn
from mindyn.applications.contact.detection import ContactDetector, contact_thresholds
from mindyn.equations.loop_closure import home_closure
from mindyn.kernels.model import compile_model
from mindyn.output.export.controller_code import write_contact_c
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
    model, home = compile_model(robot, with_drives=True), closure.home[list(closure.primary)]
    for _ in range(2):
        t, n = np.arange(0, 12, 0.01), len(home)
        w, phase, size = 2 * np.pi * rng.uniform(0.2, 1.2, (3, n)), rng.uniform(0, 6, (3, n)), SIZES[request.param]
        angle = t[:, None, None] * w + phase
        p, pd = home + size * np.sin(angle).sum(axis=1), (size * w * np.cos(angle)).sum(axis=1)
        tau = model.inverse_dynamics(p, pd, -(size * w**2 * np.sin(angle)).sum(axis=1))
        tau += 0.05 * rng.normal(size=tau.shape)
        logs.append(mindyn.log_from_arrays(robot.primary_names, t, p, tau, pd))
    equation_settings = EquationSettings(mindyn.Conditioning(motion_hz=None, delay_s=0.0), friction=Friction("sign"))
    return robot, logs, mindyn.identify(robot, logs, mindyn.LeastSquares(), equation_settings)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_c_gives_the_same(known, tmp_path):
    """Residual and alarms of the detector, row by row."""
    robot, logs, result = known
    model = compile_model(mindyn.build_full_model(result, friction_at_zero="fitted", force=True), with_drives=True)
    thresholds = contact_thresholds(result, logs)
    write_contact_c(model, thresholds, tmp_path / "watch.c")
    text = '#include "watch_contact.h"\n'
    text += "static watch_contact_state s;\nint watch(double *q, double *u, double *tau, double *r, int *alarm)\n"
    text += "{ return watch_contact(&s, q, u, tau, 0.01, r, alarm); }\n"
    (tmp_path / "detector.c").write_text(text)
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "detector.so"]
    subprocess.run(["cc", *flags, "detector.c", "watch.c", "-lm"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "detector.so"))
    solved = home_closure(robot).affine is None
    log, detector = logs[0], ContactDetector(model, thresholds, 0.01)
    whole = home_closure(robot).along(log.q[:20]) if solved else log.q[:20]
    residual, alarm = np.zeros(log.q.shape[1]), np.zeros(log.q.shape[1], dtype=np.int32)

    def call(function, *arrays):
        return function(*(np.ascontiguousarray(array).ctypes.data_as(ctypes.c_void_p) for array in arrays))

    for q, p, pd, push in zip(whole, log.q[:20], log.qd[:20], log.tau[:20] + PUSH, strict=True):
        assert call(library.watch, q, pd, push, residual, alarm) >= 0
        assert (alarm == detector.update(p, pd, push)).all()
        assert_negligible(residual - detector.residual, PUSH, ORACLE)
    assert alarm.any()
    if solved:
        open_loops = whole[0] + 0.7 * ~np.isin(robot.joint_names, robot.primary_names)
        assert call(library.watch, open_loops, log.qd[0], log.tau[0], residual, alarm) == -1
