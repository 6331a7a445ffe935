"""--out replaces what the command wrote before, and no input, recording or file of another kind."""

import json

import numpy as np
import pytest
from cli.program import mindyn_program

import mindyn

URDF = """<robot name="arm"><link name="base"/>
<link name="l1"><inertial><origin xyz="0.1 0 0.1"/><mass value="3"/>
<inertia ixx="0.05" iyy="0.05" izz="0.05" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="a1" type="revolute"><parent link="base"/><child link="l1"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" effort="50" velocity="3"/></joint></robot>"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A robot file, a recording, and a run made of them."""
    folder = tmp_path_factory.mktemp("replaced")
    (folder / "arm.urdf").write_text(URDF)
    robot = mindyn.load_robot(folder / "arm.urdf")
    t = np.arange(0, 20, 0.01)
    q = np.column_stack([np.sin(1.3 * t) + 0.4 * np.sin(3.1 * t)])
    qd = np.gradient(q, t, axis=0)
    tau = mindyn.compile_model(robot).inverse_dynamics(q, qd, np.gradient(qd, t, axis=0)) + 0.2 * qd
    mindyn.log_from_arrays(robot, t, q, tau).save(folder / "run1.csv", robot)
    ended = mindyn_program("identify", folder / "arm.urdf", folder / "run1.csv", "--out", folder / "run")
    assert ended.code == 0, ended.err
    return folder


COMMANDS = {
    "simulate": ("simulate", "arm.urdf", "--seconds", 2),
    "export": ("export", "run", "--to", "urdf"),
    "toml": ("export", "run", "--to", "toml"),
    "report": ("report", "run"),
    "view": ("view", "arm.urdf", "--no-open"),
    "excite": ("excite", "arm.urdf", "--seconds", 5, "--starts", 1),
    "payload": ("payload", "run", "run1.csv", "--to", "json"),
}
REPLACED = [
    *((command, "run1.csv") for command in COMMANDS if command != "toml"),
    *((command, "arm.urdf") for command in COMMANDS if command not in ("excite", "simulate")),
    ("toml", "run1.csv.toml"),
]


@pytest.mark.parametrize(("command", "target"), REPLACED)
def test_a_recording_and_a_robot_file_stay(made, command, target, monkeypatch):
    monkeypatch.chdir(made)
    before = (made / target).read_bytes()
    ended = mindyn_program(*COMMANDS[command], "--out", target)
    assert ended.code == 1
    assert "--out would replace" in ended.err
    assert (made / target).read_bytes() == before


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("simulate", "s.csv"),
        ("export", "m.urdf"),
        ("export", "m.xml"),
        ("toml", "m.toml"),
        ("report", "r.html"),
        ("view", "v.html"),
        ("excite", "e.csv"),
    ],
)
def test_a_command_replaces_its_own_file(made, command, name, monkeypatch):
    monkeypatch.chdir(made)
    for _ in range(2):
        ended = mindyn_program(*COMMANDS[command], "--out", name)
        assert ended.code == 0, ended.err
        assert (made / name).exists()


def test_a_wrong_rate_of_the_controller_is_rejected_before_the_search(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.setattr("mindyn.motions.excitation.complementary.design_motions", None)
    ended = mindyn_program(*COMMANDS["excite"], "--controller-hz", 0, "--out", "never")
    assert ended.code == 1
    assert "--controller-hz must be" in ended.err
    assert not (made / "never").exists()


def test_a_run_without_its_log_does_not_show_its_robot_file_as_the_log(made, monkeypatch, tmp_path):
    monkeypatch.chdir(made)
    record = json.loads((made / "run" / "run.json").read_text())
    for name in ("run.json", "estimate.json"):
        (tmp_path / name).write_bytes((made / "run" / name).read_bytes())
    kept = [entry for entry in record["inputs"] if entry["path"].endswith(".urdf")]
    assert kept
    record["inputs"] = [{**entry, "path": str(made / "arm.urdf")} for entry in kept]
    (tmp_path / "run.json").write_text(json.dumps(record))
    ended = mindyn_program("view", "arm.urdf", tmp_path, "--no-open", "--out", tmp_path / "v.html")
    assert ended.code == 1
    assert "no log of the run" in ended.err


def test_the_report_prints_the_error_on_the_held_out_log(made, monkeypatch):
    monkeypatch.chdir(made)
    robot = mindyn.load_robot("arm.urdf")
    log = mindyn.read_log("run1.csv", robot)
    turned = mindyn.log_from_arrays(robot, log.time, log.q, -log.tau)
    turned.save("turned.csv", robot)
    ended = mindyn_program("report", "run", "--validate", "turned.csv", "--out", "turned.html")
    error = mindyn.validate(mindyn.load_estimate("run/estimate.json"), turned).error.total
    assert f"the torque error on turned.csv is {100 * error:.3g} %" in ended.err
    assert "predicting zero would be better" in ended.err
