"""Run commands, identify robots and weigh payloads with the mindyn of PYTHONPATH, this version or 0.2.0.

Each line of the input is a request in JSON, each line of the output its answer. `versions.py` starts the process.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout

import numpy as np

import mindyn
from mindyn.cli.main import run

IS_CURRENT = hasattr(mindyn, "log_from_arrays")
NORMAL_95 = 1.96
UNIDENTIFIABLE_BEFORE = "untold"
"""Name of `unidentifiable` in version 0.2.0."""


def run_command(words: list[str]) -> dict:
    """Run a command of mindyn; return its exit code and everything that it prints."""
    sys.argv, printed, code = ["mindyn", *words], io.StringIO(), 0
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            run()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return {"code": code, "text": printed.getvalue()}


def fit(robot: str, logs: list[str]) -> dict:
    """Identify the first log with automatic settings, and predict the torque of all."""
    arm = mindyn.load_robot(robot)
    read = [mindyn.read_log(path, arm) for path in logs]
    estimate = mindyn.identify(arm, read[0])
    return {
        "is_consistent": getattr(estimate, "physical", None) is not None,
        "delay_s": float(np.median(np.atleast_1d(estimate.settings.conditioning.delay_s))),
        "torques": [estimate.predict_log(log).tolist() for log in read],
    }


def weigh(robot: str, free: str, loaded: list[str], weighed: str, mass: float) -> dict:
    """Return the interval of the mass and what is said of it, for each loaded run and, calibrated, for the first."""
    arm = mindyn.load_robot(robot)
    settings, friction = mindyn.Conditioning(motion_hz=10.0), mindyn.Friction("tanh", 0.02)
    empty, *runs = (mindyn.read_log(path, arm) for path in (free, weighed, *loaded))
    if not IS_CURRENT:
        arm = mindyn.with_estimated_drives(arm)
        samples = mindyn.condition(empty, arm, settings).samples
        loads = [
            mindyn.identify_payload(arm, samples, mindyn.condition(run, arm, settings).samples) for run in runs[1:]
        ]
        widths = [NORMAL_95 * float(load.covariance[0, 0]) ** 0.5 for load in loads]
        return {
            "loads": [
                (
                    load.mass - width,
                    load.mass + width,
                    "hidden" if "m" in getattr(load, UNIDENTIFIABLE_BEFORE) else "determined",
                )
                for load, width in zip(loads, widths, strict=True)
            ]
        }
    from mindyn.applications import calibrate_load

    estimate = mindyn.identify(
        arm,
        empty,
        mindyn.LeastSquares(covariance="correlated"),
        mindyn.EquationSettings(settings, friction=friction),
    )
    calibration = calibrate_load(estimate, runs[0], mass)
    loads = [mindyn.identify_payload(estimate, run) for run in runs[1:]]
    loads.append(mindyn.identify_payload(estimate, runs[1], calibration=calibration))
    return {"loads": [(*load.mass_interval, answer_mass(load)) for load in loads]}


def answer_mass(load) -> str:
    """Return what `mindyn payload` says about the mass: "determined", "hidden" by the residual, or "contradiction"."""
    from mindyn.foundation.findings import Kind

    if any(finding.kind is Kind.UNDETERMINED_MASS for finding in load.findings):
        return "hidden"
    return "determined" if load.is_feasible and "m" not in load.unidentifiable else "contradiction"


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "command" in request:
            answer = run_command(request["command"])
        else:
            answer = fit(**request) if "logs" in request else weigh(**request)
        print(json.dumps(answer), flush=True)
