"""Files that files name: each is read within its budget, or raises an error, or becomes a finding."""

from __future__ import annotations

import os
import time
import tracemalloc
from contextlib import contextmanager

import mesh_samples as samples
import numpy as np
import polars as pl
import pytest
from closeness import SAME_ALGEBRA, assert_close
from messages import messages
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, MindynError, RobotFileError
from mindyn.robots.link_solids import read_geometry
from mindyn.robots.mesh_files import read_mesh
from mindyn.robots.meshes import read_meshes

QUICK_S = 5.0
SMALL_BYTES = 400_000_000
NOBODY = 65534


@contextmanager
def within_limits():
    """Fail if the block takes long or much memory."""
    tracemalloc.start()
    start = time.perf_counter()
    try:
        yield
    finally:
        taken, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert taken < QUICK_S
        assert peak < SMALL_BYTES


@contextmanager
def as_nobody():
    """Run a block without the rights of root, which may read everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def write_arm(folder, filename):
    path = folder / "arm.urdf"
    path.write_text(samples.arm(f'<mesh filename="{filename}" scale="0.1 0.1 0.1"/>'))
    return path


BODY = (
    '<body name="{0}"><joint name="j{0}" axis="0 0 1"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>{1}</body>'
)


def write_mjcf(folder, assets, inner, name="arm.xml"):
    path = folder / name
    world = BODY.format("a", inner)
    path.write_text(f"<mujoco><asset>{assets}</asset><worldbody>{world}</worldbody></mujoco>")
    return path


def test_a_mesh_of_mujoco_is_the_same_box(tmp_path):
    mujoco = pytest.importorskip("mujoco")
    (tmp_path / "box.msh").write_bytes(samples.msh())
    mesh = read_mesh(tmp_path / "box.msh")
    a, b, c = (mesh.corners[mesh.faces[:, k]] for k in range(3))
    text = (
        f'<mujoco><asset><mesh name="m" file="{tmp_path / "box.msh"}"/></asset><worldbody><body>'
        '<geom type="mesh" mesh="m" density="1"/></body></worldbody></mujoco>'
    )
    volume = abs(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)
    assert_close(volume, mujoco.MjModel.from_xml_string(text).body_mass[1], SAME_ALGEBRA)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("large.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 99999999999999999999\n"),
        ("short.obj", b"v 0 0\nv 1 0 0 0 0 0\nv 0 1 0\nf 1 2 3\n"),
        ("offset.dae", samples.dae().replace(b'offset="1"', b'offset="99999999999999999999"')),
        ("index.dae", samples.dae().replace(b"<p>0 0", b"<p>99999999999999999999 0")),
        ("sizes.dae", samples.dae("polylist").replace(b"<vcount>4", b"<vcount>4000000000")),
        ("stride.dae", samples.dae().replace(b'stride="3"', b'stride="1"')),
        ("axis.dae", samples.dae().replace(b"0 0 1 90", b"0 0 0 90")),
        ("empty.dae", samples.dae().replace(b'semantic="VERTEX"', b'semantic="X"')),
        ("cut.msh", samples.msh()[:-1]),
        ("counts.msh", np.array([2**31 - 1] * 4, "<i4").tobytes()),
        ("far.stl", samples.stl()[:96] + np.float32(3e38).tobytes() + samples.stl()[100:]),
    ],
)
def test_wrong_numbers_of_a_mesh_raise_an_error(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with raises(RobotFileError, Code.OUT_OF_RANGE if name == "far.stl" else Code.UNREADABLE, name), within_limits():
        read_mesh(tmp_path / name)


def many_instances(count, triangles):
    faces = " ".join("0 1 2" for _ in range(triangles))
    mesh = samples.dae().decode()
    head, tail = mesh[: mesh.index("<p>")], mesh[mesh.index("</p>") :]
    head = head.replace('<input semantic="NORMAL" source="#n" offset="1"/>', "")
    text = f"{head}<p>{faces}{tail}"
    return text.replace('<instance_geometry url="#g"/>', '<instance_geometry url="#g"/>' * count).encode()


def test_instances_of_a_mesh_are_counted_before_they_are_made(tmp_path):
    (tmp_path / "many.dae").write_bytes(many_instances(1000, 30_000))
    with raises(RobotFileError, Code.UNSAFE_INPUT, "many.dae"), within_limits():
        read_mesh(tmp_path / "many.dae")
    (tmp_path / "few.dae").write_bytes(many_instances(10, 30))
    assert len(read_mesh(tmp_path / "few.dae").faces) == 300


def test_all_uses_of_a_mesh_count(tmp_path, monkeypatch):
    monkeypatch.setattr("mindyn.foundation.safe_reading.MAX_TRIANGLES", 20)
    (tmp_path / "box.stl").write_bytes(samples.stl())
    path = write_arm(tmp_path, "box.stl")
    robot = mindyn.load_robot(path)
    assert not messages(read_meshes(path, robot))
    path.write_text(path.read_text().replace('<box size="0.2 0.2 0.2"/>', '<mesh filename="box.stl"/>'))
    assert "triangles" in str(messages(read_meshes(path, robot))[0])
    monkeypatch.setenv("MINDYN_LIMITS", "off")
    assert not messages(read_meshes(path, robot))


@pytest.mark.parametrize(
    "name", ["x" * 300 + ".stl", "package://" + "y" * 400 + "/gone.stl", "loop.stl", "box.stl/a.stl"]
)
def test_a_mesh_that_cannot_be_found_is_a_finding(tmp_path, name):
    (tmp_path / "box.stl").write_bytes(samples.stl())
    (tmp_path / "loop.stl").symlink_to("loop.stl")
    path = write_arm(tmp_path, name)
    robot = mindyn.load_robot(path)
    assert len(read_meshes(path, robot).findings) == 1
    assert len(read_geometry(robot).missing) == 1
    model = write_mjcf(tmp_path, f'<mesh name="m" file="{name}"/>', '<geom type="mesh" mesh="m"/>')
    assert len(read_meshes(model, mindyn.load_robot(model)).findings) == 1


def test_a_mesh_in_a_folder_without_permission_is_a_finding(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "box.stl").write_bytes(samples.stl())
    path = write_arm(tmp_path, "closed/box.stl")
    robot = mindyn.load_robot(path)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    closed.chmod(0)
    try:
        with as_nobody():
            assert len(read_meshes(path, robot).findings) == 1
    finally:
        closed.chmod(0o700)


def test_copies_with_a_missing_mesh_take_linear_time(tmp_path):
    """Nine times the copies take nine times as long, not 81 times."""

    def load_copies(count):
        copies = (
            f'<replicate count="{count}" offset="0.1 0 0"><replicate count="{count}" offset="0 0.1 0"><body>'
            '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom type="mesh" mesh="m"/></body>'
            "</replicate></replicate>"
        )
        folder = tmp_path / str(count)
        folder.mkdir()
        path = write_mjcf(folder, '<mesh name="m" file="missing.stl"/>', copies)
        start = time.process_time()
        robot = mindyn.load_robot(path)
        return robot, time.process_time() - start

    load_copies(3)
    _, few = load_copies(30)
    robot, many = load_copies(90)
    assert many < 30 * few
    assert robot.joint_count == 1
    assert len(messages(robot)) >= 1


def test_a_mesh_that_no_inertia_needs_may_be_missing_or_broken(tmp_path):
    (tmp_path / "broken.stl").write_bytes(b"not a mesh")
    (tmp_path / "box.stl").write_bytes(samples.stl())
    assets = "".join(f'<mesh name="{name}" file="{name}.stl"/>' for name in ("broken", "missing", "box"))
    inner = "".join(f'<geom type="mesh" mesh="{name}"/>' for name in ("broken", "missing", "box"))
    path = write_mjcf(tmp_path, assets, inner)
    robot = mindyn.load_robot(path)
    geometry = read_geometry(robot)
    assert len(geometry.links["a"].solids) == 1
    assert len(geometry.missing) == 2
    needed = path.with_name("needed.xml")
    needed.write_text('<mujoco><asset><mesh name="m" file="broken.stl"/></asset><worldbody><body><joint/>'
                      '<geom type="mesh" mesh="m"/></body></worldbody></mujoco>')  # fmt: skip
    with raises(RobotFileError, Code.UNREADABLE, "m"):
        mindyn.load_robot(needed)


def test_copied_geoms_are_limited_too(tmp_path):
    geoms = '<geom size="0.1"/>' * 100
    path = write_mjcf(tmp_path, "", f'<replicate count="9000">{geoms}</replicate>')
    with raises(RobotFileError, Code.UNSAFE_INPUT, "geom"), within_limits():
        mindyn.load_robot(path)


def test_textures_and_height_fields_are_not_read(tmp_path):
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    assets = (
        '<texture name="t" type="2d" file="zero.png"/><texture name="u" type="2d" builtin="flat" width="100000" '
        'height="100000"/><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/><material name="m" texture="t"/>'
    )
    path = write_mjcf(tmp_path, assets, '<geom size="0.1" material="m"/>')
    path.write_text(path.read_text().replace("<worldbody>", '<worldbody><geom type="hfield" hfield="h"/>'))
    with within_limits():
        robot = mindyn.load_robot(path)
        assert len(read_geometry(robot).links["a"].solids) == 1


def test_includes_are_limited_in_depth_and_size(tmp_path, monkeypatch):
    for k in range(30):
        (tmp_path / f"part{k}.xml").write_text(f'<mujoco><include file="part{k + 1}.xml"/></mujoco>')
    (tmp_path / "part30.xml").write_text("<mujoco/>")
    world = f"<worldbody>{BODY.format('a', '')}</worldbody>"
    path = tmp_path / "arm.xml"
    path.write_text(f'<mujoco><include file="part0.xml"/>{world}</mujoco>')
    with raises(RobotFileError, Code.UNSAFE_INPUT, "arm.xml"):
        mindyn.load_robot(path)
    path.write_text(f'<mujoco><include file="part15.xml"/>{world}</mujoco>')
    assert mindyn.load_robot(path).joint_count == 1
    monkeypatch.setattr("mindyn.foundation.safe_reading.MAX_NAMED_BYTES", 300)
    with raises(RobotFileError, Code.UNSAFE_INPUT, "arm.xml"):
        mindyn.load_robot(path)


@pytest.mark.parametrize("tag", ["include", "model", "flexcomp"])
@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000, "/dev/zero", ".", "loop.xml"])
def test_a_file_that_is_not_a_file_raises_an_error(tmp_path, tag, name):
    (tmp_path / "loop.xml").symlink_to("loop.xml")
    element = f'<{tag} name="m" file="{name}"/>' if tag != "include" else f'<include file="{name}"/>'
    assets, inner = (element, "") if tag == "model" else ("", element)
    path = write_mjcf(tmp_path, assets, inner)
    kind = Code.MISSING_FILE
    if tag == "flexcomp":
        kind = Code.WRONG_TYPE if name in ("/dev/zero", ".") else kind if name == "loop.xml" else Code.UNREADABLE
    with raises(RobotFileError, kind), within_limits():
        mindyn.load_robot(path)


@pytest.mark.parametrize("part", ["/dev/zero", "file-001.parquet", "nothing", "."])
def test_a_part_of_a_dataset_must_be_a_file(tmp_path, part):
    arm, folder = write_dataset(tmp_path)
    (folder / "file-001.parquet").symlink_to(part)
    code = {"nothing": Code.MISSING_FILE, "file-001.parquet": Code.UNREADABLE}.get(part, Code.WRONG_TYPE)
    with raises(MindynError, code, "file-001.parquet"), within_limits():
        mindyn.read_log(tmp_path / "set", arm, columns={"torque": "action"}, units={"position": "rad", "torque": "N m"})


def test_the_parts_of_a_dataset_must_have_the_same_columns(tmp_path):
    arm, folder = write_dataset(tmp_path)
    pl.read_parquet(folder / "file-000.parquet").drop("action").write_parquet(folder / "file-001.parquet")
    with raises(MindynError, Code.DISAGREEMENT, "file-001.parquet"):
        mindyn.read_log(tmp_path / "set", arm, columns={"torque": "action"}, units={"position": "rad", "torque": "N m"})


def write_dataset(tmp_path):
    folder = tmp_path / "set" / "data" / "chunk-000"
    folder.mkdir(parents=True)
    (tmp_path / "set" / "meta").mkdir()
    (tmp_path / "set" / "meta" / "info.json").write_text('{"codebase_version": "v3.0", "features": {}}')
    t = np.arange(60) / 100
    q = np.column_stack([np.sin(3 * t), np.cos(2 * t)])
    frame = pl.DataFrame({"timestamp": t, "observation.state": q, "action": q})
    frame.write_parquet(folder / "file-000.parquet")
    return mindyn.load_robot("planar2"), folder
