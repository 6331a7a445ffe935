"""Every command that takes a log gives the same numbers from every format as from CSV."""

from __future__ import annotations

import inspect
import json
import re
from functools import cache

import polars as pl
import pytest
from cli.program import mindyn_program
from closeness import SAME_ALGEBRA, assert_close, assert_negligible
from comparison.same_process import methods_in_this_process
from logs.every_format import BY_JOINT, FORMATS, Recording, planar_motion, write_recording

import mindyn
from mindyn.cli.main import COMMANDS, load_function
from mindyn.output.export.toml_writer import write_toml

FREE, OTHER, LOADED = planar_motion(1408), planar_motion(700, seed=1), planar_motion(700, seed=2, payload=3.0)
CHANGING = (
    "sources",
    "seconds",
    "wall_s",
    "finished",
    "command",
    "out",
    "files",
    "runs",
    "given",
    "python",
    "platform",
    "logs",
)
"""Entries that name files and times."""


def output_of(*words):
    """Run a command that must succeed, and return its JSON."""
    ended = mindyn_program(*words)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a saved estimate of the arm, from CSV."""
    folder = tmp_path_factory.mktemp("saved")
    path = write_recording(folder, "csv", FREE)
    assert mindyn_program("identify", "planar2", path, "--out", folder / "run", "--no-report").code == 0
    return folder / "run"


def identify(folder, form, run):  # noqa: ARG001 - one signature for all
    path = write_recording(folder, form, OTHER)
    result = output_of(
        "identify", "planar2", path, "--hold-out", "0.3", "--out", folder / "made", "--no-report", "--json"
    )
    saved = json.loads((folder / "made" / "estimate.json").read_text())
    return result, {key: saved[key] for key in ("beta", "settings") if key in saved}


def identify_stream(folder, form, run):  # noqa: ARG001
    path, other = (write_recording(folder, form, finding, name) for finding, name in ((OTHER, "a"), (LOADED, "b")))
    return output_of("identify", "planar2", path, "--validate", other, "--stream", "--json")


def log(folder, form, run):  # noqa: ARG001
    path = write_recording(folder, form, FREE)
    ended = mindyn_program("log", path, "planar2")
    assert ended.code == 0, ended.err
    return ended.out.replace(path.name, "LOG")


def payload(folder, form, run):
    return output_of("payload", run, write_recording(folder, form, LOADED), "--json")


def contact(folder, form, run):
    free, other = (write_recording(folder, form, event, name) for event, name in ((FREE, "a"), (OTHER, "b")))
    ended = mindyn_program("contact", run, other, "--free", free, "--json")
    return json.loads(ended.out)


def report(folder, form, run):
    path = write_recording(folder, form, OTHER)
    ended = mindyn_program("report", run, "--validate", path, "--out", folder / "page.html")
    assert ended.code == 0, ended.err
    shown = re.findall(r"[\d.]+ (?:%|rad/s|N m|Hz)", re.sub(r"<[^>]*>", "", (folder / "page.html").read_text()))
    assert len(shown) > 20
    return shown


def fleet(folder, form, run):
    for number, path in enumerate((FREE, OTHER)):
        (folder / f"robot{number}").mkdir()
        write_recording(folder / f"robot{number}", form, path)
    pattern = folder / "{robot_id}" / f"run{FORMATS[form][0]}"
    study = output_of("fleet", "planar2", pattern, "--out", folder / "study", "--settings", run, "--json")
    values = pl.read_parquet(folder / "study" / "parameters.parquet").select("parameter", "value", "deviation")
    return study, values.to_dict(as_series=False)


def compare(folder, form, run):  # noqa: ARG001
    robot, signals = mindyn.load_robot("planar2"), {k: v for k, v in FREE.signals.items() if k != "velocity"}
    path = write_recording(folder, form, Recording(FREE.joints, signals))  # bags would state their velocity
    write_toml(robot, folder / "arm.toml")
    _, _, pattern = FORMATS[form]
    names = {"position": "position", "torque": "torque" if pattern else "effort"}
    by_joint = pattern in (None, BY_JOINT)

    def signal(kind):
        columns = [f"{joint}.{names[kind]}" for joint in robot.joint_names]
        return {**({"columns": columns} if by_joint else {"array": kind}), "to_joint": [[1.0, 0.0], [0.0, 1.0]]}

    rows = {
        "train": [{"file": path.name, "rows": [0, 900]}],
        "held_out": [{"file": path.name, "rows": [900, 1408], "score_rows": [920, 1390]}],
    }
    stated = {"model": "arm.toml", "joints": list(robot.joint_names), "rate_hz": 128.0, "splits": {"main": rows}}
    signals = {"position": {**signal("position"), "scale": 1.0}, "velocity": None, "torque": signal("torque")}
    path.with_name(path.name + ".toml").unlink()
    (folder / "set").mkdir()
    for entry in (path, folder / "arm.toml"):
        entry.rename(folder / "set" / entry.name)
    (folder / "splits.json").write_text(json.dumps({"sets": {"set": {**stated, **signals}}}))
    with methods_in_this_process():
        return output_of("compare", "--logs", folder, "--method", "weighted", "--json")


USES = {item.__name__: item for item in (identify, identify_stream, log, payload, contact, report, fleet, compare)}


def without_changing(value):
    if isinstance(value, dict):
        return {key: without_changing(item) for key, item in value.items() if key not in CHANGING}
    return [without_changing(item) for item in value] if isinstance(value, (list, tuple)) else value


def assert_alike(actual, expected, where="output"):
    """Assert that numbers agree to 1e-12 of the largest, and that everything else is equal."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), where
        for key, item in expected.items():
            assert_alike(actual[key], item, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), where
        numbers = [k for k, item in enumerate(expected) if isinstance(item, float)]
        if any(expected[k] for k in numbers):
            assert_close([actual[k] for k in numbers], [expected[k] for k in numbers], SAME_ALGEBRA)
        elif numbers:
            assert_negligible([actual[k] for k in numbers], 1.0, SAME_ALGEBRA)
        for k, item in enumerate(expected):
            if k not in numbers:
                assert_alike(actual[k], item, f"{where}[{k}]")
    elif isinstance(expected, float) and expected:
        assert_close([actual], [expected], SAME_ALGEBRA)
    elif isinstance(expected, str):
        assert re.sub(r"run\.\w+", "LOG", actual) == re.sub(r"run\.\w+", "LOG", expected), where
    else:
        assert actual == expected, where


@pytest.fixture(scope="module")
def expected(tmp_path_factory, run):
    return cache(lambda use: without_changing(USES[use](tmp_path_factory.mktemp("expected"), "csv", run)))


ONE_OF_EACH_READER = ("json lines", "parquet", "npz by columns", "hdf5 chunks", "mat 5", "mcap", "rosbag2 folder")
"""For commands that select settings, which takes seconds."""
TEXT_AND_MESSAGES = ("json lines", "mcap")
"""Readers that differ most from that of CSV. All formats give the same log (tests/logs/test_every_format.py)."""
SLOW = ("identify", "identify_stream", "compare", "report")


def marks_of(use, form):
    if use not in SLOW:
        return ()
    return pytest.mark.slow if form in TEXT_AND_MESSAGES else (pytest.mark.slow, pytest.mark.full)


CASES = [
    pytest.param(use, form, marks=marks_of(use, form))
    for use in USES
    for form in (ONE_OF_EACH_READER if use in ("identify", "identify_stream", "compare") else FORMATS)
    if form != "csv"
]


@pytest.mark.parametrize(("use", "form"), CASES)
def test_every_format_gives_the_numbers_of_csv(tmp_path, use, form, run, expected):
    assert_alike(without_changing(USES[use](tmp_path, form, run)), expected(use))


def test_every_command_that_takes_a_log_is_used_here():
    takes = set()
    for name in COMMANDS:
        function = load_function(name)
        helps = " ".join(
            str(getattr(metadata, "help", ""))
            for p in inspect.signature(function).parameters.values()
            for metadata in getattr(p.annotation, "__metadata__", ())
        )
        if re.search(r"\blogs?\b", f"{helps} {COMMANDS[name]}", re.IGNORECASE):
            takes.add(name)
    # `simulate` and `excite` write logs; `step-by-step` and `demo` read their own; `start` runs other commands; `base`
    # prints what logs would determine; `view` (tests/report/test_view.py) and `elasticity`
    # (tests/cli/test_elasticity_command.py) have tests of their own.
    assert takes - {"simulate", "excite", "step-by-step", "demo", "check", "start", "base", "view", "elasticity"} <= {
        name.split("_")[0] for name in USES
    }, takes
