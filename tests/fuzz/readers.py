"""Mutated robot files through the readers: everything ends in a robot or a `MindynError` of readable length.

    python tests/fuzz/readers.py urdf --count 20000 --start 0

Case k of a format is the same in every run, so that a count can be split over several runs (`--start`). A failure is
printed with its seed and written beside as fuzz-FORMAT-SEED. The exit code is 1 where there is one.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

from mindyn import MindynError, load_robot
from mindyn.robots.loading import bundled_robots

LONGEST = 8000
"""Characters of a message with its hint."""

URDF = """<?xml version="1.0"?>
<robot name="arm"><link name="base"><inertial><mass value="3"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<link name="upper"><inertial><origin xyz="0.1 0 0.2" rpy="0.1 0 0"/><mass value="2.5"/>
<inertia ixx="0.1" ixy="0.01" ixz="0" iyy="0.1" iyz="0" izz="0.05"/></inertial>
<collision><origin xyz="0 0 1"/><geometry><cylinder radius="0.1" length="0.5"/></geometry></collision></link>
<link name="fore"/><link name="tool"/>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/>
<origin xyz="0 0 0.3" rpy="0 1.5708 0"/>
<axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="50" velocity="3"/>
<dynamics damping="0.1" friction="0.2"/></joint>
<joint name="elbow" type="prismatic"><parent link="upper"/><child link="fore"/><axis xyz="1 0 0"/></joint>
<joint name="flange" type="fixed"><parent link="fore"/><child link="tool"/><origin xyz="0 0 0.1"/></joint>
<joint name="copy" type="continuous"><parent link="tool"/><child link="last"/>
<mimic joint="elbow" multiplier="2"/></joint>
<link name="last"/></robot>
"""
MJCF = """<mujoco model="arm"><compiler angle="radian"/><option gravity="0 0 -9.81"/>
<default><geom density="1000"/><default class="thin"><geom size="0.02"/></default></default>
<asset><mesh name="shell" file="shell.stl"/><texture name="t" builtin="flat" width="8" height="8"/></asset>
<worldbody><body name="upper" pos="0 0 0.3" euler="0 0.1 0">
<joint name="shoulder" axis="0 0 1" range="-2 2" damping="0.1"/>
<inertial pos="0.1 0 0.2" mass="2.5" diaginertia="0.1 0.1 0.05"/><site name="eye" pos="0 0 1"/>
<body name="fore" quat="1 0 0 0"><joint name="elbow" type="slide" axis="1 0 0" armature="0.1" frictionloss="0.2"/>
<geom type="capsule" size="0.05 0.2"/>
<replicate count="2" offset="0 0 0.1"><body><geom class="thin"/></body></replicate>
</body></body></worldbody>
<equality><joint joint1="shoulder" joint2="elbow" polycoef="0 1 0 0 0"/></equality>
<actuator><motor joint="shoulder" gear="10"/></actuator></mujoco>
"""
SPECIAL = (
    *("0", "-1", "1e308", "-1e308", "1e-308", "nan", "inf", "-inf", "1e16", "", " ", "abc", "1,5", "0x10", "9" * 401),
    *(
        "1 2",
        "1 2 3 4",
        "${x}",
        "$(arg y)",
        "true",
        "base",
        "upper",
        "fixed",
        "floating",
        "ball",
        "free",
        "\u00e9",
        "\ud7ff",
    ),
    *(
        "\u00e9",
        "1.5707963",
        "1.570796326794897",
        "6e-17",
        "x" * 5000,
        "[" * 300,
        "\\",
        '"',
        "<",
        "&amp;",
        "1000000000",
    ),
)
NUMBER = re.compile(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]+")


def seeds(form: str) -> list[str]:
    """Sound files of a format, from which the others are made."""
    if form == "toml":
        from mindyn.output.export.toml_writer import robot_to_toml

        return [robot_to_toml(load_robot(name)) for name in bundled_robots()]
    if form == "mjcf":
        return [MJCF]
    return [URDF, re.sub(r"<mimic[^>]*>", "", URDF)]


def mutate(text: str, chance: random.Random) -> str:
    """One to four changes: a number, a word, a line, a slice, a character."""
    for _ in range(chance.randint(1, 4)):
        lines = text.splitlines(keepends=True) or [""]
        kind = chance.randrange(-8, 9)
        if kind <= 2 and (result := list(NUMBER.finditer(text))):
            selected = chance.choice(result)
            scaled = repr(float(selected[0]) * 10 ** chance.uniform(-3, 3) * chance.choice((-1, 1, 1, 1)))
            text = _put(text, selected, chance.choice(SPECIAL) if kind < -5 else scaled)
        elif kind == 3 and (result := list(WORD.finditer(text))):
            text = _put(text, chance.choice(result), chance.choice([*SPECIAL, chance.choice(result)[0]]))
        elif kind == 4:
            lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
            text = "".join(lines)
        elif kind == 5:
            lines.pop(chance.randrange(len(lines)))
            text = "".join(lines)
        elif kind == 6:
            a, b = sorted(chance.randrange(len(text) + 1) for _ in range(2))
            b = min(b, a + chance.choice((1, 10, 1000)))
            text = text[:a] + text[a:b] * chance.choice((0, 2)) + text[b:]
        elif kind == 7:
            place = chance.randrange(len(text) + 1)
            text = text[:place] + chance.choice('<>"/=[]{}.,-\x00\t\u00fc') * chance.choice((1, 1, 2000)) + text[place:]
        else:
            attributes = re.findall(r'[a-z]+="[^"]*"', text) or ["x"]
            text = text.replace(chance.choice(attributes), chance.choice(attributes), 1)
    return text


def _put(text: str, result: re.Match[str], value: str) -> str:
    return text[: result.start()] + value + text[result.end() :]


def try_case(form: str, texts: list[str], seed: int, folder: Path) -> str:
    """How the case ended: `robot`, the name of a MindynError, or a traceback after `!`."""
    chance = random.Random(f"{form} {seed}")
    text = mutate(chance.choice(texts), chance)
    path = folder / f"case.{'xml' if form == 'mjcf' else form}"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        robot = load_robot(path, snap=chance.random() < 0.5)
        robot.consistency()
        str(robot)
    except MindynError as error:
        if len(str(error)) > LONGEST:
            return f"! a message of {len(str(error))} characters: {str(error)[:200]}"
        return type(error).__name__
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return "! " + "".join(traceback.format_exception(error)[-3:])
    return "robot"


def main() -> int:
    """Run the cases of one format."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("format", choices=("urdf", "toml", "mjcf"))
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--start", type=int, default=0)
    given = parser.parse_args()
    texts, ends = seeds(given.format), Counter[str]()
    failed: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.start, given.start + given.count):
            end = try_case(given.format, texts, seed, Path(folder))
            ends[end.split("\n")[0] if end.startswith("!") else end] += 1
            if end.startswith("!") and end[-120:] not in failed:
                failed[end[-120:]] = seed
                print(f"seed {seed}: {end}", file=sys.stderr)
    print(f"{given.format}: {given.count} files from {given.start}: {dict(ends.most_common(12))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
