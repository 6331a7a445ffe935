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


def write_text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def mjcf(path: Path, assets: str, world: str) -> Path:
    return write_text(path, f"<mujoco><asset>{assets}</asset><worldbody>{world}</worldbody></mujoco>")


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
    return write_text(folder / "arm.urdf", "<robot>" + "<a/>" * 4_000_000 + "</robot>")


@attack_on(ROBOTS)
def urdf_of_four_million_attributes(folder: Path) -> Path:
    words = " ".join(f'a{k}=""' for k in range(4_000_000))
    return write_text(folder / "arm.urdf", f"<robot><link {words}/></robot>")


@attack_on(ROBOTS)
def toml_of_escaped_key_parts(folder: Path) -> Path:
    return write_text(folder / "arm.toml", '"\\"".' * 28_000 + "a = 1\n")


@attack_on(ROBOTS)
def toml_of_a_million_tables(folder: Path) -> Path:
    return write_text(folder / "arm.toml", "[[a]]\n" * 4_000_000)


@attack_on(ESTIMATES)
def estimate_of_lists(folder: Path) -> Path:
    return write_text(folder / "estimate.json", '{"a": [' + "[]," * 20_000_000 + "[]]}")


@attack_on(ESTIMATES)
def estimate_of_keys(folder: Path) -> Path:
    return write_text(folder / "estimate.json", "{" + ",".join(f'"{k}":{{}}' for k in range(4_000_000)) + "}")


@attack_on(ESTIMATES)
def estimate_nested_100_000_deep(folder: Path) -> Path:
    return write_text(folder / "estimate.json", '{"a":' * 100_000 + "1" + "}" * 100_000)


@attack_on(PLANS)
def plan_nested_100_000_deep(folder: Path) -> Path:
    return write_text(folder / "plan.json", '{"a":' * 100_000 + "1" + "}" * 100_000)


@attack_on(PLANS)
def plan_that_is_a_device(folder: Path) -> Path:
    (folder / "plan.json").symlink_to("/dev/zero")
    return folder / "plan.json"


@attack_on(ROBOTS)
def mjcf_that_includes_a_file_a_hundred_times(folder: Path) -> Path:
    write_text(folder / "part.xml", "<mujoco>" + "<custom><text/></custom>" * 200_000 + "</mujoco>")
    return write_text(folder / "arm.xml", "<mujoco>" + '<include file="part.xml"/>' * 100 + "</mujoco>")


@attack_on(ROBOTS)
def mjcf_with_a_list_of_joints_nested_100_000_deep(folder: Path) -> Path:
    first, second = (
        BODY.format("").replace("<body>", '<body name="a">'),
        BODY.format("").replace("<body>", '<body name="b">'),
    )
    text = f'<custom><text name="dependent joints of loop l" data="{"[" * 100_000}"/></custom>'
    loop = '<equality><connect name="l" body1="a" body2="b" anchor="0 0 0"/></equality>'
    return write_text(folder / "arm.xml", f"<mujoco>{text}<worldbody>{first}{second}</worldbody>{loop}</mujoco>")


@attack_on(ROBOTS)
def urdf_of_a_chain_of_3000_joints(folder: Path) -> Path:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = "".join(f'<link name="l{k}">{inertial}</link>' for k in range(3001))
    joints = "".join(
        f'<joint name="j{k}" type="continuous"><parent link="l{k}"/><child link="l{k + 1}"/></joint>'
        for k in range(3000)
    )
    return write_text(folder / "arm.urdf", f'<robot name="r">{links}{joints}</robot>')


@attack_on(ROBOTS)
def urdf_of_a_star_of_30_000_joints(folder: Path) -> Path:
    links = "".join(f'<link name="l{k}"/>' for k in range(30_001))
    joints = "".join(
        f'<joint name="j{k}" type="continuous"><parent link="l0"/><child link="l{k + 1}"/></joint>'
        for k in range(30_000)
    )
    return write_text(folder / "arm.urdf", f'<robot name="r">{links}{joints}</robot>')


@attack_on(ROBOTS)
def urdf_of_entities_in_entities(folder: Path) -> Path:
    entities = "".join(f'<!ENTITY e{k + 1} "{f"&e{k};" * 10}">' for k in range(12))
    head = f'<!DOCTYPE robot [<!ENTITY e0 "x">{entities}]>'
    return write_text(folder / "arm.urdf", f'{head}<robot name="&e12;"/>')


@attack_on(ROBOTS)
def urdf_of_an_entity_that_is_repeated(folder: Path) -> Path:
    head = f'<!DOCTYPE robot [<!ENTITY e "{"x" * 100_000}">]>'
    return write_text(folder / "arm.urdf", f'{head}<robot name="{"&e;" * 100_000}"/>')


@attack_on(ROBOTS)
def urdf_of_parameter_entities(folder: Path) -> Path:
    head = '<!DOCTYPE robot [<!ENTITY % f SYSTEM "/dev/zero"> %f; ]>'
    return write_text(folder / "arm.urdf", f'{head}<robot name="r"/>')


@attack_on(ROBOTS)
def urdf_of_defaults_in_its_document_type(folder: Path) -> Path:
    """An attribute that every element has by default is written once in the file."""
    head = f'<!DOCTYPE robot [<!ATTLIST link name CDATA "{"x" * 100_000}" xmlns CDATA "{"y" * 100_000}">]>'
    return write_text(folder / "arm.urdf", f'{head}<robot name="r">{"<link/>" * 100_000}</robot>')


@attack_on(ROBOTS)
def toml_of_integers_of_many_digits(folder: Path) -> Path:
    return write_text(folder / "arm.toml", "a = [" + ("9" * 4000 + ",") * 200 + "]\nb = 0x" + "f" * 100_000 + "\n")


@attack_on(ESTIMATES)
def estimate_of_numbers_of_many_digits(folder: Path) -> Path:
    return write_text(folder / "estimate.json", '{"format": 5, "beta": [' + "9" * 4000 + ", 1e999999, -1e-999999]}")


@attack_on(ESTIMATES)
def estimate_of_a_text_that_does_not_end(folder: Path) -> Path:
    return write_text(folder / "estimate.json", '{"a":' + '\\"' * 5_000_000)
