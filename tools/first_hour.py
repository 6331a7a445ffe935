"""Play the first hour of a new user at one terminal: a URDF and three odd CSV files to exported C, without docs.

The program runs from the wheel, with an empty home and an empty cache. `mindyn start` asks what it cannot
determine; the answers below are what the owner of the arm knows. The exported C is compiled and compared with the arm.

    python tools/first_hour.py [WHEEL]        default: the wheel in dist/ (make dist)
"""

from __future__ import annotations

import ctypes
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np

import mindyn

ROOT = Path(__file__).parents[1]
ROWS, RATE = 3000, 250.0
ANSWERS = {"columns.torque": "chan_c[{i0}]", "units.torque": "N m", "side.torque": "joint", "Export as": "c"}
"""Answers of the owner of the arm, by a part of the question."""
LONGEST_S = 600


def record(robot: mindyn.Robot, seed: int) -> tuple[np.ndarray, ...]:
    """Return time, position, velocity, acceleration and torque with friction and noise of one motion."""
    rng, n = np.random.default_rng(seed), robot.joint_count
    t = np.arange(ROWS) / RATE
    frequency, phase = 2 * np.pi * rng.uniform(0.15, 0.6, (3, n)), rng.uniform(0, 6, (3, n))
    amplitude = rng.uniform(0.2, 0.45, (3, n))
    angle = t[:, None, None] * frequency + phase
    q, qd = (amplitude * np.sin(angle)).sum(axis=1), (amplitude * frequency * np.cos(angle)).sum(axis=1)
    qdd = -(amplitude * frequency**2 * np.sin(angle)).sum(axis=1)
    tau = mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd) + 3 * qd + 2 * np.tanh(50 * qd)
    return t, q, qd, qdd, tau + rng.normal(0, 0.05, tau.shape)


def write_logs(robot: mindyn.Robot, folder: Path) -> list[str]:
    """Write a log without names or time, a German one, and one with names that mean nothing."""
    _, q, qd, qdd, tau = record(robot, 1)
    np.savetxt(folder / "a.csv", np.column_stack([q, qd, qdd, tau]), delimiter=",", fmt="%.8g")
    t, q, _, _, tau = record(robot, 2)
    heads = [f"Achse {k + 1} {what}" for what in ("Istwinkel [°]", "Drehmoment [Nm]") for k in range(q.shape[1])]
    lines = [";".join(["Zeit [ms]", *heads])]
    for row in np.column_stack([1000 * t, np.rad2deg(q), tau]):
        lines.append(";".join(f"{value:.8g}".replace(".", ",") for value in row))
    (folder / "b.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    t, q, qd, _, tau = record(robot, 3)
    names = ["stamp_us", *(f"{word}[{k}]" for word in ("chan_a", "chan_b", "chan_c") for k in range(q.shape[1]))]
    table = np.column_stack([1e6 * t, q, qd, tau])
    np.savetxt(folder / "c.csv", table, delimiter="\t", header="\t".join(names), comments="", fmt="%.9g")
    return ["a.csv", "b.csv", "c.csv"]


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel into an empty environment and return its program."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    return folder / "env" / "bin" / "mindyn"


def play(command: list[str], folder: Path, home: Path) -> str:
    """Run a command at a terminal, answer its questions, and return what it printed."""
    environment = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execve(command[0], command, {**environment, "HOME": str(home), "COLUMNS": "100", "TERM": "dumb"})
    text, answered, start = "", 0, time.monotonic()
    while time.monotonic() - start < LONGEST_S:
        ready, _, _ = select.select([terminal], [], [], 1.0)
        try:
            data = os.read(terminal, 65536) if ready else b""
        except OSError:  # the program has ended
            break
        text += data.decode(errors="replace")
        sys.stdout.write(data.decode(errors="replace"))
        prompt = text[answered:].rstrip(" ")
        if not ready and prompt.endswith(":"):
            question = prompt.rsplit("\n", 1)[-1]
            answer = next((value for key, value in ANSWERS.items() if key in question), "")
            os.write(terminal, f"{answer}\n".encode())
            answered = len(text)
    _, status = os.waitpid(process, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return text


def compare_code(robot: mindyn.Robot, folder: Path) -> float:
    """Compile the exported C and return the error of its torque on another motion, relative to the torque."""
    (source,) = folder.glob("a/*.c")
    (name,) = re.findall(r"\b(\w*inverse_dynamics)\(", source.with_suffix(".h").read_text())[:1]
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", source, "-lm", "-o", folder / "arm.so"], check=True)
    function = getattr(ctypes.CDLL(str(folder / "arm.so")), name)
    _, *motion, tau = record(robot, 4)
    predicted = np.empty_like(tau)
    for k in range(len(tau)):
        rows = [np.ascontiguousarray(values[k]) for values in motion]
        function(*(ctypes.c_void_p(array.ctypes.data) for array in (*rows, predicted[k])))
    return float(np.linalg.norm(predicted - tau) / np.linalg.norm(tau))


def main() -> None:
    """Play the first hour and print how long it took and how good the exported code is."""
    wheels = [Path(sys.argv[1])] if len(sys.argv) > 1 else sorted((ROOT / "dist").glob("*.whl"))
    if not wheels:
        raise SystemExit("no wheel in dist/: run make dist, or name one")
    robot = mindyn.load_robot("puma560", tip="link3")
    with tempfile.TemporaryDirectory(prefix="mindyn-first-hour-") as name:
        folder, home = Path(name) / "work", Path(name) / "home"
        folder.mkdir()
        home.mkdir()
        mindyn.write_urdf(robot, folder / "arm.urdf", force=True)
        logs = write_logs(mindyn.load_robot(folder / "arm.urdf"), folder)
        program = install(wheels[-1].absolute(), Path(name))
        start = time.monotonic()
        play([str(program), "start", "arm.urdf", *logs], folder, home)
        seconds, error = time.monotonic() - start, compare_code(mindyn.load_robot(folder / "arm.urdf"), folder)
    print(f"\nfirst hour: {seconds:.0f} s from URDF and three CSV files to C; error of its torque: {100 * error:.2g} %")
    if error > 0.05:
        raise SystemExit("the exported code does not predict the torque of the arm")


if __name__ == "__main__":
    main()
