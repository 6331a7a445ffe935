"""A script sees that a model must not be used, and that an interrupted search gave nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cli.program import mindyn_program

import mindyn
from mindyn.cli.exit_codes import ExitCode


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two logs of one motion in a folder: as simulated, and with the torque reversed."""
    folder = tmp_path_factory.mktemp("verdicts")
    assert mindyn_program("simulate", "planar2", "--seconds", 12, "--out", folder / "right.csv").code == 0
    robot = mindyn.load_robot("planar2")
    log = mindyn.read_log(folder / "right.csv", robot)
    mindyn.log_from_arrays(robot, log.time, log.q, -log.tau, log.qd).save(folder / "reversed.csv", robot)
    return folder


FULL = pytest.mark.full


@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--json",), marks=FULL),
        pytest.param(("--hold-out", 0.3), marks=FULL),
        ("--hold-out", 0.3, "--json"),
    ],
)
def test_a_reversed_torque_exits_with_no_and_a_right_one_does_not(recorded, options):
    wrong = mindyn_program("identify", "planar2", recorded / "reversed.csv", *options)
    assert wrong.code == ExitCode.NO
    assert mindyn_program("identify", "planar2", recorded / "right.csv", *options).code == ExitCode.DONE
    if "--json" in options:
        assert "parameters" in json.loads(wrong.out)
    else:
        assert "Do not use this model" in wrong.out


@pytest.mark.parametrize("options", [(), ("--hold-out", 0.3)])
def test_no_joint_is_graded_if_the_log_cannot_identify_the_robot(tmp_path, options):
    """The second joint stands still, and the file's torque is fitted almost exactly."""
    robot, t = mindyn.load_robot("planar2"), np.arange(0, 12, 0.01)
    q = np.column_stack([np.sin(1.3 * t) + 0.5 * np.sin(2.9 * t), np.full_like(t, 0.3)])
    qd = np.column_stack([1.3 * np.cos(1.3 * t) + 1.45 * np.cos(2.9 * t), 0 * t])
    qdd = np.column_stack([-1.69 * np.sin(1.3 * t) - 4.205 * np.sin(2.9 * t), 0 * t])
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    q[:, 1] += 3e-4 * np.random.default_rng(0).normal(size=len(t))
    mindyn.log_from_arrays(robot, t, q, tau).save(tmp_path / "still.csv", robot)
    ended = mindyn_program("identify", "planar2", tmp_path / "still.csv", *options, "--out", tmp_path / "run")
    assert ended.code == ExitCode.NO
    assert "This log cannot identify this robot." in ended.out
    rows = {line.split()[0]: line for line in ended.out.splitlines() if line.startswith(("joint1 ", "joint2 ", "all "))}
    assert {name: row.endswith("not graded") for name, row in rows.items()} == dict.fromkeys(rows, True)
    assert len(rows) == 3
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count('<span class="badge">not graded</span>') == 2
    assert "predicted well" not in page
    assert '"grade-good"' not in page


@pytest.fixture(scope="module")
def design():
    arm = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.from_dict(arm, {"lower": -2.0, "upper": 2.0, "velocity": 2.0, "effort": 4e3})
    search = mindyn.SearchSettings(1, 0.0)
    safety = mindyn.SafetySettings(floor=None)
    return mindyn.design_motion(arm, seconds=5.0, limits=limits, search=search, safety=safety)


@pytest.mark.parametrize("is_useful", [False, True])
def test_an_interrupted_search_is_no_success_and_keeps_only_a_useful_motion(design, is_useful, monkeypatch, tmp_path):
    relative = 0.01 if is_useful else 10.0
    beta = np.ones(len(design.prediction.names))
    prediction = replace(design.prediction, values=beta, deviations=relative * beta)
    stopped = replace(design, prediction=prediction, is_interrupted=True)
    monkeypatch.setattr("mindyn.motions.excitation.complementary.design_motions", lambda *_, **__: [stopped])
    ended = mindyn_program("excite", "puma560", "--out", tmp_path / "motion")
    assert ended.code == ExitCode.INTERRUPTED
    assert (tmp_path / "motion").exists() == is_useful


def test_an_interrupted_search_ends_the_demonstration(design, monkeypatch, tmp_path):
    stopped = replace(design, is_interrupted=True)
    monkeypatch.setattr("mindyn.motions.excitation.design.design_motion", lambda *_, **__: stopped)
    ended = mindyn_program("demo", "--out", tmp_path / "demo")
    assert ended.code == ExitCode.INTERRUPTED
    assert not (tmp_path / "demo").exists()


def test_a_design_says_whether_ctrl_c_ended_its_search(design):
    assert not design.is_interrupted

    def interrupt(_):
        raise KeyboardInterrupt

    limits, safety = design.limits, mindyn.SafetySettings(floor=None)
    search = mindyn.SearchSettings(starts=3)
    arm = mindyn.load_robot("planar2")
    assert mindyn.design_motion(
        arm, seconds=5.0, limits=limits, search=search, safety=safety, progress=interrupt
    ).is_interrupted
