"""Mutated meshes, and files that robot files and datasets name: each ends in a value, a finding or a `MindynError`.

    python tests/fuzz/named_files.py --count 50000 --start 0

Case k is the same in every run, so that a count can be split over several runs (`--start`). The screen shows how the
cases ended, the slowest case and the peak of memory. A failure is printed with its seed. The exit code is 1 if there is
one: another exception, a case of more than `SLOWEST_S`, or more memory than `LARGEST_BYTES`.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1]))

import mesh_samples as samples
from changes import change_bytes, change_json
from readers import LONGEST
from readers import mutate as change_text

import mindyn
from mindyn import MindynError
from mindyn.robots.link_solids import read_geometry
from mindyn.robots.mesh_files import read_mesh
from mindyn.robots.meshes import read_meshes

SLOWEST_S = 10.0
LARGEST_BYTES = 2 * 10**9
MESHES: dict[str, bytes] = {
    "binary.stl": samples.stl(),
    "text.stl": samples.stl(text=True),
    "box.obj": samples.obj(),
    "triangles.dae": samples.dae(),
    "polygons.dae": samples.dae("polylist"),
    "box.msh": samples.msh(),
}
NAMES = (
    *("x" * 300, "a/" * 3000 + "b.stl", "\0", "a\0b.stl", "", ".", "..", "/", "/dev/zero", "/dev/null", "~/x.stl"),
    *("closed/box.stl", "loop.stl", "gone.stl", "folder.stl", "pipe.stl", "package://", "package://x", "file://"),
    *("package://" + "y" * 400 + "/box.stl", "http://localhost/box.stl", "\u00fc.stl", "\ud800.stl", "box.stl/box.stl"),
    *("arm.xml", "part.xml", "deep.xml", "self.xml", "box.stl", "box.obj", "box.dae", "box.msh", "%00.stl", "box.glb"),
)
"""Names of files that do not exist, cannot be read, are not files, or are others than expected."""
NUMBER = re.compile(rb"-?[0-9]+")
INTEGERS = (b"0", b"-1", b"1", b"2", b"7", b"8", b"9", b"-9", b"1000", b"1000000000", b"99999999999999999999", b"-0")
WORDS = (0, 1, 7, 8, 100, 2**31 - 1, 2**31, 2**32 - 1, 0x7F800000, 0x7FC00000, 0x7F000000)
"""Counts and indices of binary meshes; the last ones are infinity, NaN and 1.7e38 in single precision."""
MJCF = """<mujoco model="arm"><compiler angle="radian" meshdir="."/><include file="part.xml"/>
<asset><mesh name="shell" file="box.stl" scale="0.1 0.1 0.1"/><mesh name="other" file="box.obj"/>
<mesh name="old" file="box.msh"/><mesh name="own" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/>
<texture name="t" type="2d" file="box.png"/><hfield name="h" nrow="3" ncol="3" size="1 1 1 1"/>
<model name="hand" file="hand.xml"/></asset>
<worldbody><geom type="hfield" hfield="h"/><geom type="mesh" mesh="own"/>
<body name="upper"><joint name="shoulder" axis="0 0 1" range="-2 2"/>
<inertial pos="0.1 0 0.2" mass="2.5" diaginertia="0.1 0.1 0.05"/><geom type="mesh" mesh="shell"/>
<body name="fore"><joint name="elbow" axis="1 0 0"/><geom type="mesh" mesh="other" density="100"/>
<replicate count="2" offset="0 0 0.1"><body><geom type="mesh" mesh="old" mass="0.1"/></body></replicate>
<attach model="hand" body="palm" prefix="h"/></body></body></worldbody></mujoco>
"""
HAND = """<mujoco model="hand"><asset><mesh file="box.stl"/></asset><worldbody><body name="palm">
<joint name="wrist" axis="0 1 0"/><geom type="mesh" mesh="box"/></body></worldbody></mujoco>
"""
PART = '<mujoco><default><geom contype="1"/></default><include file="deep.xml"/></mujoco>'
INFO = b"""{"codebase_version": "v3.0", "fps": 100, "features": {"observation.state": {"dtype": "float32",
"shape": [2], "names": ["joint1", "joint2"]}, "action": {"dtype": "float32", "shape": [2]}}}"""


class Cases:
    """Sound files in a folder, and one changed case for each seed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.arm = mindyn.load_robot("planar2")
        urdf = samples.arm('<mesh filename="box.stl" scale="0.1 0.1 0.1"/>')
        others = {
            "box.stl": samples.stl(),
            "box.obj": samples.obj(),
            "box.dae": samples.dae(),
            "box.msh": samples.msh(),
            "box.png": bytes(64),
            "part.xml": PART.encode(),
            "deep.xml": b'<mujoco><option gravity="0 0 -9.81"/></mujoco>',
            "self.xml": b'<mujoco><include file="self.xml"/></mujoco>',
            "hand.xml": HAND.encode(),
        }
        for mesh in ("box.obj", "box.dae", "box.msh"):
            urdf = urdf.replace("<sphere ", f'<mesh filename="{mesh}"/><sphere ', 1)
        self.urdf, self.named = urdf, others
        self.arms = {"arm.urdf": urdf.encode(), "arm.xml": MJCF.encode()}
        for name, content in (others | self.arms).items():
            (folder / name).write_bytes(content)
        self._make_odd_paths()
        self.dataset = folder / "set"
        for part in ("meta", "data/chunk-000"):
            (self.dataset / part).mkdir(parents=True)
        t = np.arange(60) / 100
        q = np.column_stack([np.sin(3 * t), np.cos(2 * t)]).astype("f4")
        frame = pl.DataFrame({"timestamp": t, "observation.state": q, "action": q, "episode_index": np.zeros(60, int)})
        frame.write_parquet(folder / "part.parquet")
        self.part = (folder / "part.parquet").read_bytes()
        self.kinds: list[tuple[str, Callable[[random.Random, np.random.Generator], None]]] = [
            *((name, self._mesh_case(name)) for name in MESHES for _ in range(3)),
            *(("named by a URDF", self._robot_case("arm.urdf")) for _ in range(3)),
            ("named by an MJCF", self._robot_case("arm.xml")),
            ("LeRobot set", self._dataset_case),
        ]

    def _make_odd_paths(self) -> None:
        (self.folder / "closed").mkdir()
        (self.folder / "closed" / "box.stl").write_bytes(samples.stl())
        (self.folder / "closed").chmod(0)
        (self.folder / "folder.stl").mkdir()
        (self.folder / "loop.stl").symlink_to("loop.stl")
        (self.folder / "gone.stl").symlink_to("nothing.stl")
        os.mkfifo(self.folder / "pipe.stl")

    def run(self, seed: int) -> str:
        """Run a case and return how it ended."""
        kind, case = self.kinds[seed % len(self.kinds)]
        try:
            case(random.Random(seed), np.random.default_rng(seed))
        except MindynError as error:
            if len(str(error)) > LONGEST:
                raise AssertionError(f"a message of {len(str(error))} characters: {str(error)[:200]}") from error
            return f"{kind}: {type(error).__name__}"
        return f"{kind}: read"

    def _change(self, content: bytes, chance: random.Random, rng: np.random.Generator) -> bytes:
        if b"\0" in content and chance.random() < 0.7:
            place = 4 * chance.randrange(len(content) // 4)
            word = chance.choice((rng.bytes(4), chance.choice(WORDS).to_bytes(4, "little")))
            return content[:place] + word + content[place + 4 :]
        if b"\0" in content or chance.random() < 0.2:
            return change_bytes(content, rng)
        if NUMBER.search(content) and chance.random() < 0.5:
            for _ in range(chance.randint(1, 2)):
                place = chance.choice(list(NUMBER.finditer(content)))
                content = content[: place.start()] + chance.choice(INTEGERS) + content[place.end() :]
            return content
        return change_text(content.decode(), chance).encode("utf-8", "surrogatepass")

    def _mesh_case(self, name: str) -> Callable[[random.Random, np.random.Generator], None]:
        def case(chance: random.Random, rng: np.random.Generator) -> None:
            path = self.folder / f"case{Path(name).suffix}"
            path.write_bytes(self._change(MESHES[name], chance, rng))
            mesh = read_mesh(path)
            if not (np.isfinite(mesh.corners).all() and 0 <= mesh.faces.min() <= mesh.faces.max() < len(mesh.corners)):
                raise AssertionError("corners that are not finite, or faces without corners")

        return case

    def _robot_case(self, name: str) -> Callable[[random.Random, np.random.Generator], None]:
        def case(chance: random.Random, rng: np.random.Generator) -> None:
            path, content, changed = self.folder / name, self.arms[name], None
            match chance.randrange(4):
                case 0:
                    content = change_text(content.decode(), chance).encode("utf-8", "surrogatepass")
                case 1:
                    old = chance.choice([file for file in self.named if file.encode() in content])
                    new = chance.choice(NAMES).encode("utf-8", "surrogatepass")
                    content = content.replace(old.encode(), new.replace(b"\0", b"&#0;"))
                case _:
                    changed = chance.choice(list(self.named))
                    (self.folder / changed).write_bytes(self._change(self.named[changed], chance, rng))
            path.write_bytes(content)
            try:
                robot = mindyn.load_robot(path)
                str(robot)
                read_meshes(path, robot)
                read_geometry(robot)
            finally:
                if changed is not None:
                    (self.folder / changed).write_bytes(self.named[changed])

        return case

    def _dataset_case(self, chance: random.Random, rng: np.random.Generator) -> None:
        info, part = self.dataset / "meta" / "info.json", self.dataset / "data" / "chunk-000" / "file-000.parquet"
        second = part.with_name("file-001.parquet")
        info.write_bytes(INFO)
        part.write_bytes(self.part)
        second.unlink(missing_ok=True)
        match chance.randrange(4):
            case 0:
                info.write_bytes(change_json(INFO, rng))
            case 1:
                part.write_bytes(change_bytes(self.part, rng))
            case 2:
                second.write_bytes(change_bytes(self.part, rng))
            case 3:
                second.symlink_to(chance.choice(("/dev/zero", "nothing", "file-001.parquet", self.folder / "closed")))
        log = mindyn.read_log(
            self.dataset, self.arm, columns={"torque": "action"}, units={"position": "rad", "torque": "N m"}
        )
        str(log)


def main() -> int:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so long; 0: no limit")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    ends, failed, slowest, begin = Counter[str](), set[str](), (0.0, 0), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mindyn-fuzz-") as name:
        cases = Cases(Path(name))
        for seed in range(given.start, given.start + given.count):
            before = time.monotonic()
            try:
                ends[cases.run(seed)] += 1
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                if (fault := f"{type(error).__name__} {where.filename}:{where.lineno}") not in failed:
                    failed.add(fault)
                    print(f"seed {seed}\n{traceback.format_exc(limit=-5)[-3000:]}", file=sys.stderr, flush=True)
                ends[f"! {fault}"] += 1
            slowest = max(slowest, (time.monotonic() - before, seed))
            if given.seconds and time.monotonic() - begin > given.seconds:
                break
        (Path(name) / "closed").chmod(0o700)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for end, count in sorted(ends.items()):
        print(f"{count:7d}  {end}")
    print(f"{sum(ends.values())} cases from {given.start} in {time.monotonic() - begin:.0f} s; ", end="")
    print(f"slowest: {slowest[0]:.2f} s (seed {slowest[1]}); peak of memory: {peak / 1e6:.0f} MB")
    return 1 if failed or slowest[0] > SLOWEST_S or peak > LARGEST_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
