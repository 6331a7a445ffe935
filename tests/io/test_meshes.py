"""Meshes of links: known solids from every format, missing files reported, small enough for a page."""

from __future__ import annotations

from base64 import b64decode
from itertools import pairwise

import mesh_samples as samples
import numpy as np
import pytest
from closeness import COARSE_MESH, ORACLE, SAME_ALGEBRA, assert_close, assert_negligible
from messages import messages
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, RobotFileError
from mindyn.robots.mesh_files import Triangles, read_mesh
from mindyn.robots.meshes import MAX_PAGE_BYTES, MAX_TRIANGLES, read_meshes

QUANTISED = 1 / 65535
"""Resolution of sixteen bits, relative to the extent of a part."""


def volume(mesh):
    a, b, c = (mesh.corners[mesh.faces[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


def unpack(part):
    levels = np.frombuffer(b64decode(part.corners.data), "<u2").astype(float)
    span = part.corners.high - part.corners.low
    kind = {"index16": "<u2", "index32": "<u4"}[part.faces.kind]
    faces = np.frombuffer(b64decode(part.faces.data), kind).astype(np.int64).reshape(-1, 3)
    return Triangles((part.corners.low + levels * span * QUANTISED).reshape(-1, 3), faces)


@pytest.mark.parametrize(
    ("name", "content", "low", "high"),
    [
        ("box.stl", samples.stl(), (-1, -0.5, -0.5), (1, 0.5, 0.5)),
        ("box.STL", samples.stl(text=True), (-1, -0.5, -0.5), (1, 0.5, 0.5)),
        ("box.obj", samples.obj(), (-1, -0.5, -0.5), (1, 0.5, 0.5)),
        ("box.dae", samples.dae(), (-0.5, -1, 0), (0.5, 1, 0.5)),
        ("list.dae", samples.dae("polylist"), (-0.5, -1, 0), (0.5, 1, 0.5)),
    ],
)
def test_a_box_has_its_corners_and_volume(tmp_path, name, content, low, high):
    path = tmp_path / name
    path.write_bytes(content)
    mesh = read_mesh(path)
    assert_close(mesh.corners.min(axis=0), low, SAME_ALGEBRA)
    assert_close(mesh.corners.max(axis=0), high, SAME_ALGEBRA)
    assert_close(abs(volume(mesh)), np.prod(np.subtract(high, low)), ORACLE)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("cut.stl", samples.stl()[:-30], Code.MISSING_VALUE),
        ("words.stl", b"solid box\nfacet\nvertex 0 0 nothing\n", Code.UNREADABLE),
        ("empty.obj", b"# nothing\n", Code.MISSING_VALUE),
        ("wrong.obj", b"v 0 0 0\nf 1 2 3\n", Code.OUT_OF_RANGE),
        ("nan.obj", b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", Code.NOT_FINITE),
        ("cut.dae", samples.dae()[:400], Code.WRONG_FORMAT),
        ("link.glb", b"glTF", Code.WRONG_FORMAT),
    ],
)
def test_an_invalid_mesh_raises_an_error(tmp_path, name, content, code):
    path = tmp_path / name
    path.write_bytes(content)
    with raises(RobotFileError, code, "the COLLADA file" if name == "cut.dae" else name):
        read_mesh(path)


def write_arm(tmp_path, text=None, below="arm_description/urdf"):
    path = tmp_path / below / "arm.urdf"
    path.parent.mkdir(parents=True)
    path.write_text(text or samples.arm())
    return path


def write_box(folder):
    folder.mkdir(parents=True)
    (folder / "box.stl").write_bytes(samples.stl())


@pytest.mark.parametrize(
    "where", ["arm_description/meshes", "ws/share/arm_description/meshes", "pkgs/arm_description/meshes"]
)
def test_packages_are_found_above_the_file_and_in_ros_paths(tmp_path, where, monkeypatch):
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "ws"))
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(tmp_path / "pkgs"))
    write_box(tmp_path / where)
    path = write_arm(tmp_path, below="elsewhere/urdf" if "/arm_" in where else "arm_description/urdf")
    meshes = read_meshes(path, mindyn.load_robot(path))
    assert messages(meshes) == ()
    assert [part.link for part in meshes.parts] == [0, 1, 2]
    box = unpack(meshes.parts[1])
    assert_negligible(box.corners.max(axis=0) - (0.1, 0.05, 0.05), 0.2, QUANTISED)
    hand = unpack(meshes.parts[2])  # a sphere of 0.05 about the joint, and a box half a metre above it
    assert_negligible(np.array([hand.corners[:, 2].min() + 0.05, hand.corners[:, 2].max() - 0.6]), 0.65, QUANTISED)


def test_missing_and_unreadable_files_become_findings(tmp_path):
    path = write_arm(tmp_path)
    robot = mindyn.load_robot(path)
    meshes = read_meshes(path, robot)
    assert [part.link for part in meshes.parts] == [0, 2]
    assert str(messages(meshes)[0]) == "1 mesh file not drawn: package://arm_description/meshes/box.stl"
    (path.parents[1] / "meshes").mkdir()
    (path.parents[1] / "meshes" / "box.stl").write_text("not a mesh")
    assert "1 mesh file not drawn: box.stl has no triangles" in str(read_meshes(path, robot).findings[0])
    for source in ("puma560", tmp_path / "gone.urdf"):
        assert "no meshes are drawn" in str(read_meshes(source, robot).findings[0])


def test_held_joints_move_the_meshes(tmp_path):
    write_box(tmp_path / "arm_description/meshes")
    path = write_arm(tmp_path)
    held = mindyn.load_robot(path, lock={"b": np.pi / 2})
    meshes = read_meshes(path, held)
    assert [part.link for part in meshes.parts] == [0, 1]
    assert_negligible(unpack(meshes.parts[1]).corners[:, 0].max() - 0.9, 1.0, 2 * QUANTISED)


def test_a_fine_mesh_is_simplified_and_keeps_its_shape(tmp_path):
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 501), np.linspace(0, np.pi, 301), indexing="ij")
    points = np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)], axis=-1)
    corners = [points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]]
    triangles = np.concatenate([np.stack([corners[0], b, c], axis=2) for b, c in pairwise(corners[1:])])
    triangles = triangles.reshape(-1, 3, 3).astype("<f4")
    assert len(triangles) > MAX_TRIANGLES
    folder = tmp_path / "arm_description/meshes"
    folder.mkdir(parents=True)
    records = np.zeros(len(triangles), np.dtype([("n", "<f4", 3), ("c", "<f4", (3, 3)), ("a", "<u2")]))
    records["c"] = triangles
    (folder / "box.stl").write_bytes(bytes(80) + len(triangles).to_bytes(4, "little") + records.tobytes())
    path = write_arm(tmp_path)
    meshes = read_meshes(path, mindyn.load_robot(path))
    assert meshes.bytes < MAX_PAGE_BYTES
    assert sum(part.triangles for part in meshes.parts) <= MAX_TRIANGLES
    assert "details under" in str(messages(meshes)[0])
    ball = unpack(meshes.parts[1])
    assert_close(abs(volume(ball)), 4 / 3 * np.pi * 0.1**3, COARSE_MESH)
