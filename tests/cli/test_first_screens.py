"""What a user reads first, as one text that is reviewed as a whole: `first_screens.txt`, with # for every number.

After a wanted change, write it again and read the difference:

    MINDYN_WRITE_SCREENS=1 python -m pytest tests/cli/test_first_screens.py
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from cli.program import mindyn_program

import mindyn

SNAPSHOT = Path(__file__).with_name("first_screens.txt")
NUMBER = re.compile(r"(?<![\w#])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
"""Numbers that stand alone: those of names, such as joint1 and planar2, stay."""
SCREENS = (
    (),
    ("simulate", "planar2", "--seconds", 12, "--out", "other.csv"),
    ("log", "right.csv", "planar2"),
    ("identify", "planar2", "right.csv", "--out", "run"),
    ("identify", "planar2", "right.csv", "--hold-out", 0.3),
    ("identify", "planar2", "reversed.csv"),
    ("check", "run"),
    ("payload", "run", "loaded.csv"),
    ("export", "run", "--to", "urdf", "--out", "arm.urdf"),
    ("identify", "planar3", "right.csv"),
    ("identify", "planar2", "missing.csv"),
    ("identify", "planar2", "unnamed.csv"),
)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Make the folder of the logs the current one."""
    monkeypatch.chdir(tmp_path)
    assert mindyn_program("simulate", "planar2", "--seconds", 12, "--out", "right.csv").code == 0
    robot = mindyn.load_robot("planar2")
    loaded = robot.with_payload(mass=3.0, com=(0.1, 0.0, 0.0), inertia=np.eye(3) * 0.01)
    mindyn.write_toml(loaded, "loaded.toml")
    assert mindyn_program("simulate", "loaded.toml", "--seconds", 12, "--out", "loaded.csv").code == 0
    log = mindyn.read_log("right.csv", robot)
    mindyn.log_from_arrays(robot, log.time, log.q, -log.tau, log.qd).save("reversed.csv", robot)
    Path("unnamed.csv").write_text("a,b,c\n1,2,3\n2,3,4\n")
    return tmp_path


def show(words: tuple[object, ...], folder: Path) -> str:
    """Return command, exit code and output, with # for numbers and one blank for several."""
    ended = mindyn_program(*words)
    lines = [f"$ {' '.join(map(str, ('mindyn', *words)))}"]
    for label, text in (("out", ended.out), ("err", ended.err)):
        text = re.sub(r"Usage: .* \[OPTIONS\]", "Usage: mindyn [OPTIONS]", text)  # the program is pytest here
        shown = NUMBER.sub("#", text.replace(str(folder), "FOLDER"))
        lines += [f"{label}: {' '.join(line.split())}" for line in shown.splitlines() if line.strip()]
    return "\n".join([*lines, f"exit code {ended.code}"])


def test_the_first_screens_are_those_that_were_reviewed(folder):
    shown = "\n\n".join(show(words, folder) for words in SCREENS) + "\n"
    if os.environ.get("MINDYN_WRITE_SCREENS"):
        SNAPSHOT.write_text(shown)
    assert shown == SNAPSHOT.read_text()
