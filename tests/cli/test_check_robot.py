"""`mindyn check robot.urdf` answers whether bodies with the inertial parameters of a file can exist."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli.program import mindyn_program

import mindyn
from mindyn.output.export.urdf_writer import robot_to_urdf

LINK = """<link name="{name}"><inertial><origin xyz="{com}"/><mass value="{mass}"/>
<inertia ixx="{I[0]}" ixy="{I[1]}" ixz="{I[2]}" iyy="{I[3]}" iyz="{I[4]}" izz="{I[5]}"/></inertial></link>"""


def write_urdf(path: Path, bodies: list[tuple[float, np.ndarray, np.ndarray]]) -> Path:
    """A chain whose links have these masses, centres and tensors; every second link is on a fixed joint."""
    text = '<robot name="chain"><link name="base"/>'
    for k, (mass, com, J) in enumerate(bodies):
        entries = [repr(float(J[index])) for index in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))]
        text += LINK.format(name=f"link{k}", mass=repr(mass), com=" ".join(map(repr, map(float, com))), I=entries)
        kind, parent = ("fixed", f"link{k - 1}") if k % 2 else ("continuous", f"link{k - 1}" if k else "base")
        text += f'<joint name="j{k}" type="{kind}"><parent link="{parent}"/><child link="link{k}"/>'
        text += '<axis xyz="0 0 1"/></joint>'
    path.write_text(text + "</robot>")
    return path


def draw_bodies(rng: np.random.Generator, count: int = 12) -> list[tuple[float, np.ndarray, np.ndarray]]:
    bodies = []
    for _ in range(count):
        Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        bodies.append((rng.uniform(0.1, 5), rng.uniform(-0.3, 0.3, 3), Q @ np.diag(rng.uniform(-0.02, 0.4, 3)) @ Q.T))
    return bodies


@pytest.mark.parametrize("seed", range(4))
def test_links_exist_exactly_if_pinocchio_finds_a_positive_pseudo_inertia(tmp_path, seed):
    pinocchio = pytest.importorskip("pinocchio")
    bodies = draw_bodies(np.random.default_rng(seed))
    ended = mindyn_program("check", write_urdf(tmp_path / "a.urdf", bodies), "--json")
    answers = {entry["link"]: entry["status"] for entry in json.loads(ended.out)["links"]}
    expected = {"base": "unknown"}
    for k, (mass, com, J) in enumerate(bodies):
        try:
            P = pinocchio.PseudoInertia.FromInertia(pinocchio.Inertia(mass, com, J)).toMatrix()
            exists = np.linalg.eigvalsh(P)[0] > 0
        except RuntimeError:  # its inertia is not positive
            exists = False
        expected[f"link{k}"] = "consistent" if exists else "inconsistent"
    assert answers == expected
    assert len(set(expected.values())) == 3  # both answers occur
    assert ended.code == 3


def test_robots_that_exist_end_with_zero(tmp_path):
    path = tmp_path / "puma.urdf"
    path.write_text(robot_to_urdf(mindyn.load_robot("planar2"), force=True))
    for source in (path, "planar2"):
        ended = mindyn_program("check", source)
        assert ended.code == 0
        assert "link2" in ended.out


def test_a_negative_mass_is_an_answer_and_a_robot_without_inertia_an_error(tmp_path):
    rng = np.random.default_rng(0)
    (_, com, J), *_ = draw_bodies(rng)
    negative = mindyn_program("check", write_urdf(tmp_path / "n.urdf", [(-1.0, com, J)]), "--json")
    assert negative.code == 3
    assert [entry["status"] for entry in json.loads(negative.out)["links"]] == ["unknown", "inconsistent"]
    bare = tmp_path / "bare.urdf"
    bare.write_text('<robot name="bare"><link name="base"/></robot>')
    assert mindyn_program("check", bare).code == 1
    assert mindyn_program("check", tmp_path / "missing.urdf").code == 1
    assert mindyn_program("check", "planar2", "--method", "yoshida").code == 1


def test_an_inertia_that_mujoco_rejects_is_an_answer(tmp_path):
    pytest.importorskip("mujoco")
    path = tmp_path / "a.xml"
    path.write_text(
        '<mujoco><worldbody><body name="a"><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 5"/></body>'
        "</worldbody></mujoco>"
    )
    assert mindyn_program("check", path).code == 3
