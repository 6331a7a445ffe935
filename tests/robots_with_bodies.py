"""Random robots with known geometry, and files for mindyn that keep the inertia but not the shapes.

MuJoCo computes mass, centre of mass and inertia from the bodies. The original file (MJCF with geoms) is the truth; the
stripped file (URDF, or MJCF for loops) has the same joints and inertia and no geometry at all.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

import mujoco
import numpy as np

TURN_RAD_S, SLIDE_M_S, EFFORT = 2.0, 0.4, 2000.0


@dataclass(frozen=True)
class BodiedRobot:
    """Two files of a random robot, and the options of `mindyn excite` for its mounting."""

    original: Path
    stripped: Path
    options: tuple[str, ...]
    description: str


def write_random_robot(seed: int, folder: Path) -> BodiedRobot:
    """Write a random robot: every tenth is a five-bar linkage, the others are chains of 2 to 7 joints."""
    rng = np.random.default_rng([seed, 31])
    folder.mkdir(parents=True, exist_ok=True)
    tree, description = _five_bar(rng) if seed % 10 == 9 else _chain(rng)
    original = folder / "original.xml"
    original.write_bytes(tostring(tree))
    model = mujoco.MjModel.from_xml_path(str(original))
    loop = tree.find("equality") is not None
    stripped = folder / ("stripped.xml" if loop else "stripped.urdf")
    stripped.write_bytes(tostring(_stripped_mjcf(tree, model) if loop else _stripped_urdf(model)))
    mount = "floor" if loop else str(rng.choice(["floor", "floor", "wall", "ceiling"]))
    options = () if mount == "floor" else ("--mount", mount)
    return BodiedRobot(original, stripped, options, f"{description}, {mount}")


def _text(values: np.ndarray) -> str:
    return " ".join(f"{value:.9g}" for value in np.atleast_1d(values))


def _add_solid(body: Element, asset: Element, rng: np.random.Generator, end: np.ndarray) -> None:
    """Add a capsule, cylinder, box or convex mesh from the body's origin to a point."""
    length, radius = float(np.linalg.norm(end)), rng.uniform(0.02, 0.06)
    along = _turn_to(end)
    place = {"pos": _text(end / 2), "quat": _text(along), "density": _text(rng.uniform(300, 2700))}
    kind = str(rng.choice(["capsule", "cylinder", "box", "mesh"]))
    if kind == "mesh":
        name = f"{body.get('name')}_hull"
        points = rng.uniform(-1, 1, (20, 3)) * [radius, radius, length / 2 + radius]
        SubElement(asset, "mesh", name=name, vertex=_text(points.ravel()))
        SubElement(body, "geom", type="mesh", mesh=name, **place)
        return
    size = [radius, rng.uniform(0.02, 0.06), length / 2 + radius] if kind == "box" else [radius, length / 2]
    SubElement(body, "geom", type=kind, size=_text(np.array(size)), **place)


def _turn_to(direction: np.ndarray) -> np.ndarray:
    """Return a quaternion that turns z to a direction."""
    quaternion = np.zeros(4)
    mujoco.mju_quatZ2Vec(quaternion, direction / np.linalg.norm(direction))
    return quaternion


def _add_lump(body: Element, rng: np.random.Generator, at: np.ndarray) -> None:
    """Add a motor or counterweight away from the line between the joints."""
    place = {"pos": _text(at + rng.uniform(-0.12, 0.12, 3)), "density": _text(rng.uniform(1000, 4000))}
    if rng.random() < 0.5:
        SubElement(body, "geom", type="sphere", size=_text(rng.uniform(0.02, 0.06)), **place)
    else:
        SubElement(body, "geom", type="box", size=_text(rng.uniform(0.02, 0.06, 3)), **place)


def _root() -> tuple[Element, Element, Element]:
    root = Element("mujoco")
    SubElement(root, "compiler", angle="radian", autolimits="true")
    return root, SubElement(root, "asset"), SubElement(root, "worldbody")


def _chain(rng: np.random.Generator) -> tuple[Element, str]:
    root, asset, world = _root()
    count, height = int(rng.integers(2, 8)), rng.uniform(0.15, 0.5)
    SubElement(world, "geom", type="cylinder", size=_text(np.array([0.06, height / 2])), pos=_text([0, 0, height / 2]))
    parent, origin, slides = world, np.array([0, 0, height]), 0
    for k in range(count):
        turn = rng.choice([[1, 0, 0, 0], [0.5**0.5, 0.5**0.5, 0, 0], [0.5**0.5, 0, 0.5**0.5, 0], [0.8, 0.36, 0.48, 0]])
        first = np.array([1.0, 0, 0, 0])
        body = SubElement(parent, "body", name=f"link{k + 1}", pos=_text(origin), quat=_text(turn if k else first))
        slide = rng.random() < 0.2 and slides < 2
        slides += slide
        limits = [0.0, rng.uniform(0.15, 0.35)] if slide else np.array([-1, 1]) * rng.uniform(1.0, 2.9, 2)
        kind = "slide" if slide else "hinge"
        SubElement(body, "joint", name=f"joint{k + 1}", type=kind, axis="0 0 1", range=_text(np.array(limits)))
        last = k == count - 1
        direction = rng.normal(loc=[0, 0, 0 if k else 2])
        origin = direction / np.linalg.norm(direction) * rng.uniform(0.15, 0.6 if last else 0.4)
        _add_solid(body, asset, rng, origin)
        if rng.random() < 0.4:
            _add_lump(body, rng, origin / 2)
        parent = body
    return root, f"{count} joints, {slides} sliding"


def _five_bar(rng: np.random.Generator) -> tuple[Element, str]:
    """Return a five-bar linkage in a vertical plane: two driven cranks, two rods that a pin connects."""
    root, asset, world = _root()
    gap, crank, rod, height = (
        rng.uniform(0.15, 0.3),
        rng.uniform(0.2, 0.25),
        rng.uniform(0.45, 0.6),
        rng.uniform(0.5, 0.8),
    )
    pin = np.array([gap / 2, 0, crank + np.sqrt(rod**2 - (gap / 2) ** 2)])
    for side, x in (("left", 0.0), ("right", gap)):
        outer = SubElement(world, "body", name=f"crank_{side}", pos=_text([x, 0.15 * (side == "right"), height]))
        SubElement(outer, "joint", name=f"drive_{side}", axis="0 1 0", range="-0.35 0.35")
        _add_solid(outer, asset, rng, np.array([0, 0, crank]))
        inner = SubElement(outer, "body", name=f"rod_{side}", pos=_text([0, 0, crank]))
        SubElement(inner, "joint", name=f"elbow_{side}", axis="0 1 0", range="-2.5 2.5")
        _add_solid(inner, asset, rng, pin - [x, 0, crank])
    anchor = pin - [0, 0, crank]
    loops = SubElement(root, "equality")
    SubElement(loops, "connect", body1="rod_left", body2="rod_right", anchor=_text(anchor))
    return root, "five-bar"


def _stripped_mjcf(tree: Element, model: mujoco.MjModel) -> Element:
    root = deepcopy(tree)
    asset = root.find("asset")
    if asset is not None:
        root.remove(asset)
    for parent in [root.find("worldbody"), *root.iter("body")]:
        for geom in parent.findall("geom") if parent is not None else ():
            parent.remove(geom)
    for body in root.iter("body"):
        k = model.body(body.get("name")).id
        values = {"pos": model.body_ipos[k], "quat": model.body_iquat[k], "diaginertia": model.body_inertia[k]}
        SubElement(
            body, "inertial", mass=f"{model.body_mass[k]:.12g}", **{name: _text(x) for name, x in values.items()}
        )
    return root


def _stripped_urdf(model: mujoco.MjModel) -> Element:
    root = Element("robot", name="random")
    SubElement(root, "link", name="base")
    for k in range(1, model.nbody):
        name, joint = model.body(k).name, model.body_jntadr[k]
        link = SubElement(root, "link", name=name)
        inertial = SubElement(link, "inertial")
        SubElement(inertial, "origin", xyz=_text(model.body_ipos[k]), rpy=_text(_rpy(model.body_iquat[k])))
        SubElement(inertial, "mass", value=f"{model.body_mass[k]:.12g}")
        moments = dict(zip(("ixx", "iyy", "izz"), (f"{x:.9g}" for x in model.body_inertia[k]), strict=True))
        SubElement(inertial, "inertia", **moments, ixy="0", ixz="0", iyz="0")
        slide = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE
        element = SubElement(root, "joint", name=model.joint(joint).name, type="prismatic" if slide else "revolute")
        parent = int(model.body_parentid[k])
        SubElement(element, "parent", link=model.body(parent).name if parent else "base")
        SubElement(element, "child", link=name)
        SubElement(element, "origin", xyz=_text(model.body_pos[k]), rpy=_text(_rpy(model.body_quat[k])))
        SubElement(element, "axis", xyz="0 0 1")
        lower, upper = (f"{x:.9g}" for x in model.jnt_range[joint])
        speed = str(SLIDE_M_S if slide else TURN_RAD_S)
        SubElement(element, "limit", lower=lower, upper=upper, velocity=speed, effort=str(EFFORT))
    return root


def _rpy(quaternion: np.ndarray) -> np.ndarray:
    R = np.empty(9)
    mujoco.mju_quat2Mat(R, quaternion)
    R = R.reshape(3, 3)
    pitch = np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0]))
    if abs(np.cos(pitch)) < 1e-9:
        return np.array([np.arctan2(-R[1, 2], R[1, 1]), pitch, 0.0])
    return np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])
