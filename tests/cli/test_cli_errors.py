"""Invalid input ends every command with a message, a hint and exit code 1; nothing is printed or written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from inspect import signature

import pytest
from cli.program import mindyn_program

from mindyn.cli.main import COMMANDS, load_function
from mindyn.cli.printing import NOTHING_WRITTEN
from mindyn.foundation.errors import InputError
from mindyn.foundation.hints import install_command
from mindyn.robots.loading import RobotOptions

ROBOT_COMMANDS = {
    "robots": (),
    "base": (),
    "count": (),
    "excite": (),
    "simulate": ("--out", "log.csv"),
    "log": (),
    "identify": ("log.csv",),
    "start": ("log.csv",),
    "compare": ("--repetitions", "1"),
    "step-by-step": (".",),
    "fleet": ("{robot_id}/*.csv", "--out", "fleet"),
    "payload": (),
    "view": ("--no-open", "--out", "view.html"),
}
"""Commands that take a robot, and the arguments after it."""
ARGUMENTS_BEFORE_ROBOT = {
    "step-by-step": ("plan",),
    "log": ("table.csv",),
    "payload": ("--wrench", "table.csv", "--robot"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.urdf").write_text("<robot")
    (tmp_path / "table.csv").write_text("q1,q2\n1,2\n")
    (tmp_path / "drives.toml").write_text('[[drive]]\njoint = "joint1"\nratoi = 3\n')
    (tmp_path / "folder.toml").mkdir()
    return tmp_path


def assert_rejected(ended, *words: str) -> None:
    assert ended.code == 1
    assert ended.out == "" or json.loads(ended.out)["error"]["message"]  # with --json
    last = ended.err[ended.err.index("error: ") :]
    assert "\nhint: " in last
    assert "Traceback" not in last
    for word in words:
        assert word in last


@pytest.mark.parametrize(
    ("robot", "message"),
    [
        ("puma650", "did you mean 'puma560'?"),
        ("nothing_like_it", "neither a bundled robot nor a file"),
        ("missing.urdf", "there is no file 'missing.urdf'"),
        ("broken.urdf", "check line 1"),
        ("table.csv", "mindyn reads .toml, .urdf"),
        ("folder.toml", "is a folder, not a file"),
    ],
)
@pytest.mark.parametrize("command", ROBOT_COMMANDS)
def test_every_command_rejects_a_wrong_robot(command, robot, message, folder):
    before = sorted(folder.rglob("*"))
    assert_rejected(
        mindyn_program(command, *ARGUMENTS_BEFORE_ROBOT.get(command, ()), robot, *ROBOT_COMMANDS[command]), message
    )
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("more", [(), ("--stream",)])
@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("missing.csv", "there is no log 'missing.csv'"),
        ("table.csv", "columns.position = "),
        ("table.xyz", "there is no log"),
    ],
)
def test_identify_rejects_a_wrong_log(log, message, more):
    assert_rejected(mindyn_program("identify", "planar2", log, *more), message)


@pytest.fixture
def log(folder):
    ended = mindyn_program("simulate", "planar2", "--seconds", 0.5, "--out", "run.csv")
    assert ended.code == 0
    return folder / "run.csv"


def test_a_missing_column_is_named(log):
    sidecar = log.with_name("run.csv.toml")
    whole = sidecar.read_text()
    sidecar.write_text(whole.replace("{joint}.torque", "{joint}.effort"))
    assert_rejected(mindyn_program("identify", "planar2", log), "joint1.effort", "joint1.torque")
    sidecar.write_text(whole.replace('time = "time"', 'time = "stamp"'))
    assert_rejected(mindyn_program("identify", "planar2", log), "no time column 'stamp'")


@pytest.mark.parametrize("more", [(), ("--stream",)])
def test_joints_of_a_log_that_are_not_used_are_named(more):
    assert mindyn_program("simulate", "puma560", "--seconds", 1, "--out", "puma.csv").code == 0
    ended = mindyn_program("identify", "planar2", "puma.csv", *more)
    assert re.search(r"joint3, joint4, joint5, joint6\s+Check that the log belongs to this robot", ended.err)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file of settings"),
        ("edge_s =", "is not valid TOML"),
        ("egde_s = 2", "unknown entry 'egde_s'"),
    ],
)
def test_wrong_settings_are_rejected(log, folder, text, message):
    if text is not None:
        (folder / "settings.toml").write_text(text)
    assert_rejected(mindyn_program("identify", "planar2", log, "--conditioning", "settings.toml"), message)


def test_an_invalid_output_folder_is_rejected(log):
    assert_rejected(mindyn_program("identify", "planar2", log, "--out", "table.csv"), "cannot be created")
    out = mindyn_program("simulate", "planar2", "--seconds", 0.1, "--out", "table.csv/run.csv")
    assert_rejected(out, "the folder 'table.csv' of --out does not exist")
    assert_rejected(mindyn_program("simulate", "planar2", "--out", "run.xyz"), "must end with .csv or .parquet")
    log.with_name("taken.csv").mkdir()
    ended = mindyn_program("simulate", "planar2", "--seconds", 0.1, "--out", "taken.csv")
    assert_rejected(ended, "'taken.csv' cannot be written: it is a folder")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("base", "planar2", "--form", "magic"), "the forms are: structural, lin"),
        (("base", "planar2", "--json", "--symbols"), "exclude each other"),
        (("excite", "planar2"), "limits.toml"),
        (("excite", "planar2", "--limits", "none.toml"), "there is no file of limits"),
        (("simulate", "scara", "--out", "s.csv", "--counts", 100, "--seconds", 0.1), "omit counts_per_revolution"),
        (("simulate", "planar2", "--out", "s.csv", "--seed", -1), "seed = -1 must be a whole number, zero or more"),
        (("simulate", "planar2", "--out", "s.csv", "--seconds", 0), "hint: such as 10.0"),
        (("simulate", "planar2", "--out", "s.csv", "--rate-hz", 0), "hint: such as 1000.0"),
        (("simulate", "planar2", "--out", "s.csv", "--counts", 0), "hint: omit it"),
        (("simulate", "planar2", "--out", "s.csv", "--torque-noise", -1), "hint: 0 is a perfect sensor"),
        (("excite", "panda", "--seconds", -1), "hint: such as 20.0"),
        (("excite", "panda", "--rate-hz", 0), "hint: such as 100.0"),
        (("excite", "panda", "--starts", 0), "hint: such as 1"),
        (("identify", "planar2", "table.csv", "--method", "robots"), "hint: did you mean 'robust'?"),
        (("identify", "planar2", "table.csv", "--lock", "jiont1=0"), "hint: did you mean 'joint1'?"),
        (("identify", "planar2", "table.csv", "--lock", "joint1=nan"), "hint: such as --lock gripper=0.02"),
        (
            ("identify", "planar2", "table.csv", "--lock", "joint1=0", "--lock", "joint2=0"),
            "hint: keep at least one joint",
        ),
        (("identify", "planar2", "table.csv", "--drives", "drives.toml"), "hint: did you mean 'ratio'?"),
        (
            ("simulate", "puma560", "--out", "s.csv", "--torque-noise", 0.3),
            "hint: pass --noise-at motor or --noise-at joint",
        ),
        (
            ("simulate", "puma560", "--out", "s.csv", "--motion", "none"),
            "hint: write one: mindyn excite puma560 --out none",
        ),
        (("excite", "panda", "--speed", 2), "fraction of the limits"),
        (("excite", "panda", "--floor", 0, "--no-floor"), "exclude each other"),
    ],
)
def test_invalid_arguments_are_rejected_with_a_hint(arguments, message):
    assert_rejected(mindyn_program(*arguments), message)


@pytest.mark.parametrize(
    ("module", "file", "extra"),
    [("mujoco", "arm.xml", "mjcf"), ("h5py", "run.h5", "hdf5"), ("zstandard", "run.mcap", "ros")],
)
def test_a_missing_extra_prints_the_install_command(module, file, extra, folder, monkeypatch):
    (folder / file).write_text("<mujoco/>" if extra == "mjcf" else "not empty")
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    arguments = ("robots", file) if extra == "mjcf" else ("identify", "planar2", file)
    assert_rejected(mindyn_program(*arguments), install_command(extra))


def test_wrong_usage_ends_with_code_2():
    for arguments in (
        ("nonsense",),
        ("base",),
        ("count",),
        ("base", "planar2", "--nonsense"),
        ("simulate", "planar2"),
        ("--no",),
    ):
        ended = mindyn_program(*arguments)
        assert ended.code == 2
        assert ended.out == ""
    assert "Did you mean 'robots'" in mindyn_program("robtos").err


@pytest.mark.parametrize(("raised", "code"), [(KeyboardInterrupt, 130), (InputError("no"), 1)])
def test_errors_and_interrupts_have_their_exit_codes(monkeypatch, raised, code):
    def interrupt(*_, **__):
        raise raised

    monkeypatch.setattr(RobotOptions, "load", interrupt)
    ended = mindyn_program("robots", "planar2")
    assert ended.code == code
    assert ended.err == ("error: no\n" if code == 1 else f"interrupted: {NOTHING_WRITTEN}\n")


def test_an_unexpected_exception_is_not_hidden(monkeypatch):
    def raise_error(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(RobotOptions, "load", raise_error)
    with pytest.raises(ZeroDivisionError):
        mindyn_program("robots", "planar2")


def test_every_command_that_takes_a_robot_is_tested():
    assert set(ROBOT_COMMANDS) <= set(COMMANDS)
    for command in set(COMMANDS) - set(ROBOT_COMMANDS):
        function = load_function(command)
        assert "robot" not in signature(function).parameters, f"{command} takes a robot: add it to ROBOT_COMMANDS"


def test_a_closed_pipe_ends_the_program_without_a_traceback():
    command = [sys.executable, "-c", "from mindyn.cli.main import run; run()", "robots", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        program.stdout.close()
        assert b"Traceback" not in program.stderr.read()


def test_motion_only_in_the_held_out_part_is_an_error(folder):
    rows = ["t,q1,q2,tau1,tau2"]
    rows += [f"{k / 100},{0.3 if k < 400 else k / 400 - 0.7},0.1,{1 + k % 3},2" for k in range(500)]
    (folder / "late.csv").write_text("\n".join(rows) + "\n")
    columns = 'columns = { time = "t", position = "q{i}", torque = "tau{i}" }'
    units = 'units = { time = "s", position = "rad", torque = "N m" }'
    (folder / "late.csv.toml").write_text(f'side = "joint"\n{columns}\n{units}\n')
    ended = mindyn_program("identify", "planar2", "late.csv", "--hold-out", "0.2")
    assert_rejected(ended, "all motion is in the last 20 % of the logs", "rows = [first, end]")
