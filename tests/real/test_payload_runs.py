"""Loaded runs of a UR10e: gains calibrated with one, the mass from the other."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest
from equations import equations

import mindyn
from mindyn.identification import WeighedLoad, estimate_gains
from mindyn.logs.metadata import LogMetadata
from mindyn.regression.regressor import with_estimated_drives

FOLDER = Path(os.environ.get("MINDYN_REAL_DATA", "/nonexistent")) / "ur10e_innopolis"
MASS = 2.805
"""kg, stated by the source."""


@pytest.mark.skipif(not FOLDER.is_dir(), reason="MINDYN_REAL_DATA holds no ur10e_innopolis")
def test_gains_of_one_loaded_run_give_the_mass_of_the_other():
    robot = mindyn.load_robot(FOLDER / "model" / "ur10e.urdf")
    arm, logs, runs = with_estimated_drives(robot), {}, {}
    for name in ("free", "loaded_1", "loaded_2"):
        table = polars.read_parquet(FOLDER / f"{name}.parquet")
        q, qd, current = (
            np.column_stack([table[f"{signal}{k}_{unit}"].to_numpy() for k in range(1, 7)])
            for signal, unit in (("q", "rad"), ("qd", "rad_s"), ("current", "A"))
        )
        log = mindyn.log_from_arrays(robot.joint_names, table["t_s"].to_numpy(), q, current, qd)
        runs[name] = mindyn.condition(robot, [log], None).samples
        logs[name] = replace(log, metadata=LogMetadata(current_gains="unknown"))
    gains, again = (
        estimate_gains(arm, [logs["free"]], scale=WeighedLoad([logs[name]], MASS)).values
        for name in ("loaded_1", "loaded_2")
    )
    assert np.abs(again[1:] / gains[1:] - 1).max() < 0.1, (
        "the first joint, which gravity does not load, is poorly determined"
    )
    torques = {name: replace(run, tau=gains * run.tau) for name, run in runs.items()}
    estimate = mindyn.LeastSquares(covariance="correlated").fit(equations(arm, torques["free"]))
    first, second = (mindyn.identify_payload(estimate, torques[name]) for name in ("loaded_1", "loaded_2"))
    for load in (first, second):
        low, high = load.mass_interval
        assert low <= MASS <= high
        assert high - low < 0.4
    # The same load, turned by half a turn about the axis of the last joint, y of its frame.
    width = first.centre_half_widths + second.centre_half_widths
    assert (np.abs(second.centre - np.array([-1, 1, -1]) * first.centre) <= width).all()
