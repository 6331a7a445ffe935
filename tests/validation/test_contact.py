"""Contacts of a simulated arm: detected with sign and link; thresholds keep the required rate of false alarms.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises
from typer.testing import CliRunner

import mindyn
from mindyn.applications.contact.detection import (
    OBSERVER_GAIN_PER_S,
    ContactDetector,
    ContactThresholds,
    ResidualBounds,
    _rare_peak_threshold,
    contact_thresholds,
    contact_trace,
    find_contacts,
)
from mindyn.cli.main import app
from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.model import compile_model
from mindyn.logs.log import write_log
from mindyn.output.export.controller_code import write_contact_c
from mindyn.regression.friction import Friction
from mindyn.regression.settings import EquationSettings
from mindyn.robots.parts import Drive

RATE = 200.0
PANDA = mindyn.load_robot("panda")
ROBOT = replace(PANDA, drives=tuple(Drive(j, 1.0, {}, 0.05, 0.5, 0.8, 0.0, "joint") for j in PANDA.joint_names))
N = ROBOT.joint_count


def run(seconds, seed, pushes=()):
    """A motion along sines: torque of the model, noise, and pushes (from, to, joint, N m) by the environment."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    w, p = 2 * np.pi * rng.uniform(0.1, 0.5, N), rng.uniform(0, 6, N)
    middle = np.array([0, 0, 0, -1.5, 0, 1.8, 0])
    phase = t[:, None] * w + p
    q, qd, qdd = middle + 0.6 * np.sin(phase), 0.6 * w * np.cos(phase), -0.6 * w**2 * np.sin(phase)
    tau = compile_model(ROBOT, with_drives=True).inverse_dynamics(q, qd, qdd) + rng.normal(0, 0.3, q.shape)
    for start, end, joint, torque in pushes:
        tau[(t >= start) & (t < end), joint] -= torque
    return mindyn.log_from_arrays(ROBOT.joint_names, t, q, tau, qd)


@pytest.fixture(scope="module")
def estimate():
    equation_settings = EquationSettings(mindyn.Conditioning(motion_hz=20.0), friction=Friction("tanh", 0.01))
    return mindyn.identify(ROBOT, [run(10, seed) for seed in range(20, 26)], mindyn.LeastSquares(), equation_settings)


@pytest.fixture(scope="module")
def thresholds(estimate):
    return contact_thresholds(estimate, [run(20, 1)])


def test_pushes_are_found_with_sign_and_link_and_free_motions_are_not(estimate, thresholds):
    pushes = [(3.0, 3.6, 3, 9.0), (6.0, 6.5, 1, -12.0)]
    contacts = find_contacts(contact_trace(estimate, run(10, 2, pushes), thresholds), ROBOT)
    assert [(dict(item.joints), item.link) for item in contacts] == [
        ({"joint4": 1}, ROBOT.joints[3].child),
        ({"joint2": -1}, ROBOT.joints[1].child),
    ]
    for contact, (start, end, _, torque) in zip(contacts, pushes, strict=True):
        assert abs(contact.start_s - start) < 3 / OBSERVER_GAIN_PER_S
        assert abs(contact.end_s - end) < 5 / OBSERVER_GAIN_PER_S
        assert_close(np.array(list(contact.torque.values())), np.array([abs(torque)]), 0.15)
    assert not contact_trace(estimate, run(30, 3), thresholds).alarms.any()


def test_noise_of_the_first_row_is_not_a_contact(estimate, thresholds):
    """A row that is off by more than a threshold is one time constant's share of an alarm, wherever it stands."""
    log = run(3, 40)
    trace = contact_trace(estimate, log, thresholds)
    joint = int(np.argmin(trace.upper[0] / thresholds.moving))
    for row in np.searchsorted(log.time, trace.time[[0, 100]]):
        tau = log.tau.copy()
        tau[row, joint] += 3 * trace.upper[0, joint]
        assert not contact_trace(estimate, replace(log, tau=tau), thresholds).alarms.any()


def test_gumbel_thresholds_have_the_requested_alarm_rate():
    rng = np.random.default_rng(0)
    drawn = rng.gumbel(2.0, 0.5, (400_000, 1))
    bound = _rare_peak_threshold(drawn[:2000], 1e-3)
    share = float((drawn > bound).mean())
    assert 0.5e-3 < share < 2e-3


def test_torque_hidden_by_friction_is_not_an_alarm_but_a_change_is():
    moving, still = np.array([1.0]), np.array([5.0])
    watch, dt = ResidualBounds(moving, still, OBSERVER_GAIN_PER_S, 0.01), 0.01

    def last(r, qd, seconds):
        for _ in range(round(seconds / dt)):
            lower, upper = watch.bounds(np.array([r]), np.array([qd]))
        return r < lower[0] or r > upper[0]

    assert not last(4.0, 0.0, 0.5)  # friction may hold so much
    assert last(6.5, 0.0, 0.1)  # but not that
    assert not last(4.0, 0.0, 2.0)
    assert last(2.5, 0.0, 0.1)  # the arm has stood, and something else holds it now
    assert not last(0.5, 0.3, 1.0)
    assert last(1.2, 0.3, 0.1)  # in motion, what friction hid has faded
    assert not last(1.2, 0.0, 0.1)


def test_the_detector_of_a_control_loop_and_its_c_agree(tmp_path, thresholds):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    model = compile_model(ROBOT, with_drives=True)
    log = run(4, 4, [(2.0, 2.5, 3, 15.0)])
    still = run(3, 5).take(slice(0, 1))
    q = np.vstack([log.q, np.repeat(still.q, 600, axis=0)])
    qd = np.vstack([log.qd, np.zeros((600, N))])
    tau = np.vstack([log.tau, np.repeat(model.gravity(still.q), 600, axis=0)])
    tau[-100:, 1] += 25.0  # a change while the arm stands
    detector = ContactDetector(model, thresholds, 1 / RATE)
    expected = np.array([[*detector.update(*row), *detector.residual] for row in zip(q, qd, tau, strict=True)])
    assert expected[410:490, 3].max() == 1
    assert expected[-1, 1] == -1
    write_contact_c(model, thresholds, tmp_path / "arm.c")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "arm_contact.h"\n'
        f"int main(void) {{ arm_contact_state s = {{0}}; double v[{3 * N}], r[{N}]; int a[{N}], i;\n"
        f"while (fread(v, sizeof v, 1, stdin)) {{ arm_contact(&s, v, v + {N}, v + {2 * N}, {1 / RATE!r}, r, a);\n"
        f'for (i = 0; i < {N}; i++) printf("%d ", a[i]);\nfor (i = 0; i < {N}; i++) printf("%.17g ", r[i]);\n'
        'puts(""); }\nreturn 0; }\n'
    )
    flags = ["-std=c99", "-O1", "-Wall", "-Werror", "-o", "main", "main.c", "arm.c", "-lm"]
    subprocess.run([compiler, *flags], cwd=tmp_path, check=True)
    fed = np.hstack([q, qd, tau]).tobytes()
    lines = subprocess.run([tmp_path / "main"], input=fed, capture_output=True, check=True).stdout.decode()
    got = np.array([[float(word) for word in line.split()] for line in lines.splitlines()])
    assert_close(got[:, N:], expected[:, N:], SAME_ALGEBRA)
    assert (got[:, :N] == expected[:, :N]).all()


def test_the_command_prints_contacts_and_writes_a_page(tmp_path, estimate):
    estimate.save(tmp_path / "estimate.json")
    sides = dict.fromkeys(("position", "velocity", "torque"), "joint")
    for name, log in (("free.csv", run(15, 6)), ("pushed.csv", run(5, 7, [(2.0, 2.5, 3, 9.0)]))):
        signals = {"position": log.q, "velocity": log.qd, "torque": log.tau}
        write_log(ROBOT, log.time, signals, tmp_path / name, sides)
    words = ["contact", str(tmp_path / "estimate.json"), str(tmp_path / "pushed.csv"), "--json"]
    more = ["--free", str(tmp_path / "free.csv"), "--plot", str(tmp_path / "page.html")]
    done = CliRunner().invoke(app, [*words, *more])
    (result,) = json.loads(done.stdout)["contacts"]
    assert result["joints"] == {"joint4": 1}
    assert "External torque on joint4" in (tmp_path / "page.html").read_text()
    lost = CliRunner().invoke(app, words)
    assert isinstance(lost.exception, InputError)
    assert "are not found" in str(lost.exception)


def test_thresholds_of_another_arm_or_of_too_little_motion_raise(estimate):
    other = ContactThresholds(("a", "b"), np.ones(2), np.ones(2))
    with raises(InputError, Code.DISAGREEMENT, "thresholds"):
        contact_trace(estimate, run(5, 8), other)
    with raises(InputError, Code.TOO_LITTLE_DATA, "logs"):
        contact_thresholds(estimate, [run(3, 8)])
    with raises(InputError, Code.OUT_OF_RANGE, "alarms_per_hour"):
        contact_thresholds(estimate, [run(3, 8)], alarms_per_hour=0.0)
