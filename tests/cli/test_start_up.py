"""Commands import only what they need: help needs no numbers, and the error of a log no estimator."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import mindyn
from mindyn.applications.comparison.log_methods import LOG_METHODS
from mindyn.applications.comparison.simulated_comparison import BENCH_METHODS
from mindyn.applications.comparison.simulated_recordings import BenchSetting
from mindyn.applications.contact import detection
from mindyn.applications.fleet.study_files import STUDY_FILES
from mindyn.cli import choices
from mindyn.cli.main import COMMANDS
from mindyn.equations.identifiability.base_sets import FORMS
from mindyn.identification.elasticity.records import ELASTICITY_FILE
from mindyn.identification.method_names import METHODS, SERVO_METHODS
from mindyn.identification.servos.servo_estimate import SERVO_FILE
from mindyn.logs.wrench_log import WrenchFrame
from mindyn.motions.excitation import motion_safety
from mindyn.motions.excitation.design_inputs import Purpose
from mindyn.output.export.controller_payloads import CONTROLLERS
from mindyn.robots.edits import MOUNTS
from mindyn.robots.loading import RootJoint

OPTIMIZERS = {"scipy.optimize", "scipy.special", "scipy.ndimage", "scipy.spatial"}
NUMBERS = {"numpy", "scipy", "casadi", "polars", "pyarrow", "llvmlite"}
CONVERTERS = {"rich", "pydantic"}


def loaded_after(*calls, expected=(0,)):
    """Return the modules that are loaded after these calls of the program, in one process."""
    show = """
import sys, json, contextlib, os
from mindyn.cli.main import run
codes = []
with contextlib.redirect_stdout(open(os.devnull, "w")):
    for words in json.loads(sys.argv[1]):
        sys.argv = ["mindyn", *words]
        try:
            run()
        except SystemExit as end:
            codes.append(end.code or 0)
print(json.dumps([codes, sorted(sys.modules)]))
"""
    done = subprocess.run(
        [sys.executable, "-c", show, json.dumps([list(map(str, words)) for words in calls])],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    codes, modules = json.loads(done.stdout)
    assert set(codes) <= set(expected), done.stderr
    return set(modules)


def test_help_of_every_command_imports_no_numbers():
    loaded = loaded_after(*((command, "--help") for command in COMMANDS))
    assert loaded & (NUMBERS | CONVERTERS) == set()
    assert {f"mindyn.cli.{command.replace('-', '_')}_command" for command in COMMANDS} <= loaded


@pytest.fixture
def bare_log(tmp_path):
    t = np.arange(0, 2, 0.01)
    motion = np.column_stack([np.sin(t), np.cos(t)])
    log = mindyn.log_from_arrays(["joint1", "joint2"], t, motion, motion)
    log.save(tmp_path / "run.csv", mindyn.load_robot("planar2"))
    return tmp_path / "run.csv"


def test_log_and_check_of_a_robot_import_no_optimizer(bare_log):
    loaded = loaded_after(("log", bare_log, "planar2"), ("check", "planar2"))
    assert loaded & (OPTIMIZERS | CONVERTERS | {"casadi"}) == set()
    next(Path(bare_log).parent.glob("*.toml")).unlink()
    loaded = loaded_after(("log", bare_log), ("log", bare_log, "planar2"))
    assert loaded & (OPTIMIZERS | CONVERTERS) == set()
    assert loaded & {"mindyn.kernels.model", "mindyn.kernels.closed_kernel", "urllib.request"} == set()
    assert not any(name.startswith("mindyn.identification.estimators") for name in loaded)


def test_a_log_that_does_not_exist_is_rejected_before_readers_are_imported(tmp_path):
    loaded = loaded_after(("log", tmp_path / "nothing.csv", "planar2"), expected=(1,))
    assert loaded & (OPTIMIZERS | {"casadi", "polars", "scipy"}) == set()


def test_error_of_a_draft_imports_no_estimator(bare_log):
    sidecar = next(Path(bare_log).parent.glob("*.toml"))
    sidecar.write_text("draft = true\n" + sidecar.read_text())
    loaded = loaded_after(("identify", "planar2", bare_log), expected=(1,))
    assert loaded & (OPTIMIZERS | {"casadi"}) == set()
    assert not any(name.startswith("mindyn.identification.estimators") for name in loaded)


@pytest.mark.parametrize(
    ("shown", "defined"),
    [
        (choices.FORM_NAMES, FORMS),
        (choices.MOUNT_NAMES, MOUNTS),
        (choices.METHOD_NAMES, tuple(METHODS)),
        (choices.SERVO_METHOD_NAMES, SERVO_METHODS),
        (choices.LOG_METHOD_NAMES, tuple(LOG_METHODS)),
        (choices.BENCH_METHOD_NAMES, tuple(BENCH_METHODS)),
        (choices.STUDY_FILES, STUDY_FILES),
        ((choices.SERVO_FILE,), (SERVO_FILE,)),
        ((choices.ELASTICITY_FILE,), (ELASTICITY_FILE,)),
        (choices.CONTROLLER_NAMES, tuple(CONTROLLERS)),
        (get_args(choices.RootJoint), get_args(RootJoint)),
        (get_args(choices.Purpose), get_args(Purpose)),
        (get_args(choices.WrenchFrame), get_args(WrenchFrame)),
        ((choices.CLEARANCE_M, choices.TRACKING_ERROR_M), (motion_safety.CLEARANCE_M, motion_safety.TRACKING_ERROR_M)),
        ((choices.TIP_SPEED,), (motion_safety.TIP_SPEED,)),
        ((choices.OBSERVER_GAIN_PER_S,), (detection.OBSERVER_GAIN_PER_S,)),
        ((choices.ALARMS_PER_HOUR,), (detection.ALARMS_PER_HOUR,)),
        (asdict(choices.BenchDefaults()).items(), asdict(BenchSetting()).items()),
    ],
)
def test_choices_that_help_shows_are_those_of_the_library(shown, defined):
    assert tuple(shown) == tuple(defined)
