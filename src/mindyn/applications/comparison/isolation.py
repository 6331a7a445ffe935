"""Run a method in its own process and folder, without the torque of held-out rows.

The parent writes the robot, the training logs and the held-out motions (their torque is zero) into an empty folder. The
process fits the method there and writes its torques; the parent scores them. The process has no variable that names the
folder of the recordings, and opening a file of that folder from Python ends the method. This prevents mistakes and
simple cheating; it is not a sandbox against hostile code.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from mindyn.applications.comparison.log_sets import Split
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.foundation.safe_reading import describe_exception
from mindyn.logs.log import Log
from mindyn.robots.robot import Robot

TASK_FILE: Final = "task.pickle"
RESULT_FILE: Final = "result.json"
DATA_VARIABLE: Final = "MINDYN_REAL_DATA"
WATCHED_EVENTS: Final = frozenset({"open", "os.listdir", "os.scandir"})


@dataclass(frozen=True, slots=True, eq=False)
class MethodTask:
    """Input of a method: robot, training logs, motions to predict, and the folder that it must not read."""

    method: str
    robot: Robot
    training: tuple[Log, ...]
    motions: tuple[Log, ...]
    forbidden: str


@dataclass(frozen=True, slots=True, eq=False)
class IsolatedResult:
    """What a method returned.

    name             name that the method gives itself
    torques          (N, n) for each motion; empty if the method failed
    bands            lower and upper torque (N, n) of each motion, if the method states them
    is_consistent    whether its parameters are physically consistent; None if it does not say
    seconds, wall_s  processor time and time of the fit
    reason           why there is no torque
    """

    name: str
    torques: tuple[Array, ...] = ()
    bands: tuple[tuple[Array, Array], ...] = ()
    is_consistent: bool | None = None
    seconds: float = 0.0
    wall_s: float = 0.0
    reason: str = ""


def run_method(method: str, split: Split, motions: Sequence[Log], forbidden: Path) -> IsolatedResult:
    """Fit a method to the training logs of a split in a new process, and return its torques for `motions`."""
    hidden = tuple(_hide_source(replace(log, tau=np.zeros_like(log.tau))) for log in motions)
    training = tuple(map(_hide_source, split.training))
    path = str(Path(method).absolute()) if method.endswith(".py") else method
    task = MethodTask(path, replace(split.robot, file=""), training, hidden, str(forbidden.resolve()))
    with TemporaryDirectory(prefix="mindyn-method-") as name:
        folder = Path(name)
        (folder / TASK_FILE).write_bytes(pickle.dumps(task))
        environment = {key: value for key, value in os.environ.items() if key != DATA_VARIABLE}
        command = [sys.executable, "-m", "mindyn.applications.comparison.isolation"]
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        return _read_result(folder, method, ended)


def _hide_source(log: Log) -> Log:
    return replace(log, sources=(), name=log.name or "log")


def _read_result(folder: Path, method: str, ended: subprocess.CompletedProcess[str]) -> IsolatedResult:
    if not (folder / RESULT_FILE).is_file():
        last = (ended.stderr.strip().splitlines() or ["no message"])[-1]
        # The file's own name: its folder is that of one machine and does not belong in a record.
        name = Path(method).stem.replace("_", " ") if method.endswith(".py") else method
        return IsolatedResult(name, reason=f"its process ended with code {ended.returncode}: {last}")
    result = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
    if result.pop("is_invalid"):
        raise InputError(result["reason"], code=Code.WRONG_FORMAT, subject=method)
    torques = tuple(np.load(path) for path in sorted(folder.glob("torque-*.npy")))
    bands = tuple((band[0], band[1]) for band in map(np.load, sorted(folder.glob("bands-*.npy"))))
    return IsolatedResult(torques=torques, bands=bands, **result)


def main() -> None:
    """Run the task of the current folder: the entry point of the new process."""
    from mindyn.applications.comparison.log_methods import load_method

    task: MethodTask = pickle.loads(Path(TASK_FILE).read_bytes())
    result: dict[str, Any] = {"name": task.method, "reason": "", "is_invalid": False}
    try:
        result["name"], fit = load_method(task.method)
    except MindynError as error:
        result |= {"reason": error.message, "is_invalid": True}
    else:
        _forbid_reading(task.forbidden)
        try:
            result |= _fit_and_predict(fit, task)
        except Exception as error:  # third-party methods may raise anything
            lines = error.message.splitlines() if isinstance(error, MindynError) else [describe_exception(error)]
            result["reason"] = lines[0]
    Path(RESULT_FILE).write_text(json.dumps(result), encoding="utf-8")


def _fit_and_predict(fit: Any, task: MethodTask) -> dict[str, Any]:
    wall, processor = time.perf_counter(), time.process_time()
    predictor = fit(task.robot, task.training)
    times = {"seconds": time.process_time() - processor, "wall_s": time.perf_counter() - wall}
    for k, motion in enumerate(task.motions):
        np.save(f"torque-{k:03d}.npy", np.asarray(predictor(motion), dtype=np.float64))
        if hasattr(predictor, "bands"):
            np.save(f"bands-{k:03d}.npy", np.asarray(predictor.bands(motion), dtype=np.float64))
    consistent = getattr(predictor, "is_consistent", None)
    return {**times, "is_consistent": None if consistent is None else bool(consistent)}


def _forbid_reading(folder: str) -> None:
    """End the method if Python code opens or lists anything in `folder`."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in WATCHED_EVENTS and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if path == folder or path.startswith(folder + os.sep):
                raise InputError(
                    "the method tried to read the recordings, which contain held-out rows",
                    code=Code.UNSAFE_INPUT,
                    subject=Path(path).name,
                )

    sys.addaudithook(watch)


if __name__ == "__main__":
    main()
