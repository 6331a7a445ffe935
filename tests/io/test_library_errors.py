"""Exceptions of libraries become mindyn errors: encodings, filters, equalities, inertias, sizes."""

from __future__ import annotations

import encodings
import pkgutil

import numpy as np
import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, ExportError, MindynError, RobotError
from mindyn.foundation.findings import Kind
from mindyn.identification.log_drafts import draft_log

ARM = mindyn.load_robot("planar2")
URDF = """<?xml version="1.0" encoding="{encoding}"?><robot name="a"><link name="base"/><link name="l"><inertial>
<mass value="1"/><inertia ixx="{ixx}" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="continuous"><parent link="base"/><child link="l"/><axis xyz="0 0 1"/></joint></robot>"""


def test_every_codec_of_python_is_read_or_rejected(tmp_path):
    names = {module.name for module in pkgutil.iter_modules(encodings.__path__)} | set(encodings.aliases.aliases)
    rejected = set()
    for name in sorted(names):
        (tmp_path / "a.urdf").write_text(URDF.format(encoding=name, ixx=1))
        try:
            assert mindyn.load_robot(tmp_path / "a.urdf").joint_names == ("j",)
        except MindynError:
            rejected.add(name)
    assert {"punycode", "undefined", "idna", "unicode_escape", "rot_13", "base64_codec"} <= rejected
    assert {"latin_1", "cp1252", "gb18030", "utf_8"}.isdisjoint(rejected)


@pytest.mark.parametrize("ixx", [-1.0, -1e-6])
def test_a_negative_inertia_is_reported_and_not_exported(tmp_path, ixx):
    (tmp_path / "a.urdf").write_text(URDF.format(encoding="utf-8", ixx=ixx))
    robot = mindyn.load_robot(tmp_path / "a.urdf")
    assert [note.kind for note in robot.findings] == [Kind.NEGATIVE_INERTIA]
    again = mindyn.load_robot(tmp_path / "a.urdf", root="base", tip="l")
    assert [note.kind for note in again.findings if note.kind == Kind.NEGATIVE_INERTIA] == [Kind.NEGATIVE_INERTIA]
    pytest.importorskip("pinocchio")
    with raises(ExportError, Code.NOT_FEASIBLE, "l"):
        mindyn.to_pinocchio(robot)


@pytest.mark.parametrize("ixx", [1.0, 0.0, 10.0])  # a solid, a rod, a violation of the triangle inequality
def test_other_inertias_are_not_reported(tmp_path, ixx):
    (tmp_path / "a.urdf").write_text(URDF.format(encoding="utf-8", ixx=ixx))
    assert mindyn.load_robot(tmp_path / "a.urdf").findings == ()


@pytest.mark.parametrize(
    "equality",
    [
        '<connect body1="b" body2="c" anchor="0 0 0"/>',
        '<connect body1="b" body2="world" anchor="0 0 0"/>',
        '<weld body1="b"/>',
        '<weld body1="b" body2="c"/>',
        '<joint joint1="j"/>',
    ],
)
def test_equalities_of_immobile_bodies_raise_a_robot_error(tmp_path, equality):
    pytest.importorskip("mujoco")
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    bodies = f'<body name="b">{inertial}<body name="c" pos="0 0 1">{inertial}</body></body>'
    text = f"<mujoco><worldbody>{bodies}</worldbody><equality>{equality}</equality></mujoco>"
    (tmp_path / "a.xml").write_text(text)
    with raises(RobotError, (Code.INVALID_STRUCTURE, Code.WRONG_FORMAT, Code.UNREADABLE)):
        mindyn.load_robot(tmp_path / "a.xml")


@pytest.mark.parametrize("packing", ["gzip", "shuffle", "fletcher32"])
def test_damaged_hdf5_filters_raise_a_mindyn_error(tmp_path, packing):
    h5py = pytest.importorskip("h5py")
    path, rng = tmp_path / "log.h5", np.random.default_rng(0)
    how = {"compression": "gzip", **({} if packing == "gzip" else {packing: True})}
    with h5py.File(path, "w") as file:
        file["t"] = np.arange(2000) / 200
        for name in ("q", "tau"):
            file.create_dataset(name, data=rng.normal(size=(2000, 2)), chunks=(500, 2), **how)
    content = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        chunks = [file[name].id.get_chunk_info(k) for name in ("q", "tau") for k in range(4)]
    for chunk in chunks:
        content[chunk.byte_offset + 4 : chunk.byte_offset + 40] = rng.bytes(36)
    path.write_bytes(content)
    for use in (lambda: draft_log(path, ARM), lambda: mindyn.read_log(path, ARM, **STATED)):
        with raises(MindynError, Code.UNREADABLE, "log.h5"):
            use()


STATED = {
    "columns": {"time": "t", "position": "q", "torque": "tau"},
    "units": {"time": "s", "position": "rad", "torque": "N m"},
    "side": "joint",
    "metadata": {"joints": ["joint1", "joint2"]},
}


@pytest.mark.parametrize("size", [1e-320, 1e-160, 1e-100, 1e-20, 1e20, 1e100, 1e160, 1.7e308])
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("method", [mindyn.LeastSquares, mindyn.InstrumentalVariables, mindyn.PhysicallyConsistent])
def test_torques_of_any_size_are_fitted_or_rejected(size, clip, method):
    """Also if all torques are clipped at the largest number: sums of squares must stay finite."""
    q, qd, qdd = np.random.default_rng(1).uniform(-1, 1, (3, 300, 2))
    tau = mindyn.compile_model(ARM).inverse_dynamics(q, qd, qdd)
    tau = size * (np.sign(tau) if clip else tau / np.abs(tau).max())
    try:
        samples = mindyn.Samples(ARM.joint_names, q, qd, qdd, tau, 100.0, np.zeros(len(q), np.int64))
        estimate = method().fit(mindyn.build_rows(ARM, samples, mindyn.EquationSettings()))
    except MindynError:
        return
    assert np.isfinite(estimate.beta).all()
