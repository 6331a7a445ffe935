"""Run this version of mindyn, or another checkout, on robots and logs in files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars

import mindyn

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """A process that runs commands with the sources of a checkout."""

    def __init__(self, checkout: Path) -> None:
        path = Path(__file__).with_name("worker.py")
        self._process = subprocess.Popen(
            [sys.executable, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(checkout / "src"), "PYTHONSAFEPATH": "1"},
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, **request: Any) -> dict:
        """Return the answer to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def fit(self, robot: Path, *logs: Path) -> SimpleNamespace:
        """Identify the first log; return delay_s, whether the values are consistent, and the torques of all logs."""
        return SimpleNamespace(**self.ask(robot=str(robot), logs=[str(path) for path in logs]))

    def identify(self, robot: Path, *words: object) -> dict:
        """Return exit code and text of `mindyn identify`."""
        gravity = np.loadtxt(robot.with_suffix(".gravity")).tolist()
        return self.ask(command=["identify", str(robot), *map(str, words), "--gravity", *map(str, gravity)])


def save_robot(folder: Path, robot) -> Path:
    """Write a robot file without drives, and its gravity."""
    path = folder / "arm.urdf"
    mindyn.write_urdf(replace(robot, drives=()), path, force=True)
    np.savetxt(path.with_suffix(".gravity"), robot.gravity)
    return path


def save_log(path: Path, log, *, gains=None, rows: tuple[int, int] | None = None) -> Path:
    """Write a log with its sidecar.

    gains  true N m/A; the sidecar gives 10 N m/A for all
    """
    signals = {"q": log.q, "tau": log.tau if gains is None else log.tau / gains}
    signals |= {} if log.qd is None else {"qd": log.qd}
    columns = {f"{key}_{name}": x[:, j] for key, x in signals.items() for j, name in enumerate(log.joint_names)}
    polars.DataFrame({"t": log.time, **columns}).write_csv(path)
    lines = [
        'side = "joint"',
        'columns = { time = "t", position = "q_{joint}", torque = "tau_{joint}"'
        + (" }" if log.qd is None else ', velocity = "qd_{joint}" }'),
        f'units = {{ time = "s", position = "rad", velocity = "rad/s", torque = "{"N m" if gains is None else "A"}" }}',
        *([] if gains is None else [f"current_gains = {[10.0] * len(log.joint_names)}"]),
        *([] if rows is None else [f"rows = {list(rows)}"]),
    ]
    path.with_name(f"{path.name}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
