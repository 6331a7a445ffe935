"""Robot files and records made to break a reader: each function writes one into a folder and gives its path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Attack = Callable[[Path], Path]
ROBOTS: dict[str, Attack] = {}
ESTIMATES: dict[str, Attack] = {}
PLANS: dict[str, Attack] = {}

BODY = '<body><joint type="hinge"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>{}</body>'


def attack_on(attacks: dict[str, Attack]) -> Callable[[Attack], Attack]:
    def add(make: Attack) -> Attack:
        attacks[make.__name__] = make
        return make

    return add


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def mjcf(path: Path, assets: str, world: str) -> Path:
    return written(path, f"<mujoco><asset>{assets}</asset><worldbody>{world}</worldbody></mujoco>")


@attack_on(ROBOTS)
def mjcf_that_attaches_itself(folder: Path) -> Path:
    path = folder / "arm.xml"
    world = BODY.format('<attach model="m" prefix="a"/>')
    return mjcf(path, f'<model name="m" file="{path}"/>', world)


@attack_on(ROBOTS)
def mjcf_files_that_attach_each_other(folder: Path) -> Path:
    for this, other in (("one", "two"), ("two", "one")):
        world = BODY.format('<attach model="m" prefix="a"/>')
        mjcf(folder / f"{this}.xml", f'<model name="m" file="{folder / other}.xml"/>', world)
    return folder / "one.xml"


@attack_on(ROBOTS)
def mjcf_that_attaches_a_hundred_million_bodies(folder: Path) -> Path:
    mjcf(folder / "level0.xml", "", BODY.format(""))
    for level in range(1, 5):
        world = BODY.format("".join(f'<attach model="m" prefix="a{k}"/>' for k in range(100)))
        mjcf(folder / f"level{level}.xml", f'<model name="m" file="{folder}/level{level - 1}.xml"/>', world)
    return folder / "level4.xml"


@attack_on(ROBOTS)
def mjcf_of_a_built_in_mesh_without_end(folder: Path) -> Path:
    mesh = '<mesh name="m" builtin="supersphere" params="30000 1 1"/>'
    return mjcf(folder / "arm.xml", mesh, '<body><joint/><geom type="mesh" mesh="m"/></body>')


@attack_on(ROBOTS)
def urdf_of_four_million_links(folder: Path) -> Path:
    return written(folder / "arm.urdf", "<robot>" + "<a/>" * 4_000_000 + "</robot>")


@attack_on(ROBOTS)
def urdf_of_four_million_attributes(folder: Path) -> Path:
    words = " ".join(f'a{k}=""' for k in range(4_000_000))
    return written(folder / "arm.urdf", f"<robot><link {words}/></robot>")


@attack_on(ROBOTS)
def toml_of_escaped_key_parts(folder: Path) -> Path:
    return written(folder / "arm.toml", '"\\"".' * 28_000 + "a = 1\n")


@attack_on(ROBOTS)
def toml_of_a_million_tables(folder: Path) -> Path:
    return written(folder / "arm.toml", "[[a]]\n" * 4_000_000)


@attack_on(ESTIMATES)
def estimate_of_lists(folder: Path) -> Path:
    return written(folder / "estimate.json", '{"a": [' + "[]," * 20_000_000 + "[]]}")


@attack_on(ESTIMATES)
def estimate_of_keys(folder: Path) -> Path:
    return written(folder / "estimate.json", "{" + ",".join(f'"{k}":{{}}' for k in range(4_000_000)) + "}")


@attack_on(ESTIMATES)
def estimate_nested_100_000_deep(folder: Path) -> Path:
    return written(folder / "estimate.json", '{"a":' * 100_000 + "1" + "}" * 100_000)


@attack_on(PLANS)
def plan_nested_100_000_deep(folder: Path) -> Path:
    return written(folder / "plan.json", '{"a":' * 100_000 + "1" + "}" * 100_000)


@attack_on(PLANS)
def plan_that_is_a_device(folder: Path) -> Path:
    (folder / "plan.json").symlink_to("/dev/zero")
    return folder / "plan.json"
