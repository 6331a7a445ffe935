"""Mesh files of a box of 2 x 1 x 1 about the origin, and an arm that uses them."""

from __future__ import annotations

import numpy as np

CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
SIDES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
FACES = np.array([part for a, b, c, d in SIDES for part in ((a, b, c), (a, c, d))])

DAE = """<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit name="centimeter" meter="0.01"/><up_axis>Y_UP</up_axis></asset>
<library_geometries><geometry id="g"><mesh>
<source id="s"><float_array id="a" count="24">{numbers}</float_array>
<technique_common><accessor source="#a" count="8" stride="3"/></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#s"/></vertices>
{polygons}</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="w"><node><translate>0 0 25</translate><node>
<rotate>0 0 1 90</rotate><scale>1 1 0.5</scale><instance_geometry url="#g"/></node></node></visual_scene>
</library_visual_scenes></COLLADA>"""


def stl(text=False):
    triangles = CORNERS[FACES].astype("<f4")
    if text:
        rows = ["\n".join(f"vertex {x:g} {y:g} {z:g}" for x, y, z in triangle) for triangle in triangles]
        loops = "".join(f"facet normal 0 0 0\nouter loop\n{row}\nendloop\nendfacet\n" for row in rows)
        return f"solid box\n{loops}endsolid box\n".encode()
    records = b"".join(bytes(12) + triangle.tobytes() + bytes(2) for triangle in triangles)
    return b"solid but binary".ljust(80) + len(triangles).to_bytes(4, "little") + records


def obj():
    """Return quads with texture and normal indices, the last quad with negative indices."""
    corners = "".join(f"v {x:g} {y:g} {z:g}\n" for x, y, z in CORNERS)
    sides = [" ".join(f"{k + 1}/1/1" for k in side) for side in SIDES[:-1]]
    last = " ".join(str(k - 8) for k in SIDES[-1])
    return (f"# a box\n{corners}" + "".join(f"f {side}\n" for side in (*sides, last))).encode()


def dae(kind="triangles"):
    """Return the box in centimetres, turned about z by 90 degrees, half as high and lifted by 25 cm."""
    places = lambda rows: " ".join(f"{k} 0" for row in rows for k in row)  # noqa: E731
    if kind == "triangles":
        inner = f"<p>{places(FACES)}</p>"
    else:
        inner = f"<vcount>{' '.join(['4'] * 6)}</vcount><p>{places(SIDES)}</p>"
    inputs = '<input semantic="VERTEX" source="#v" offset="0"/><input semantic="NORMAL" source="#n" offset="1"/>'
    numbers = " ".join(f"{100 * value:g}" for value in CORNERS.ravel())
    return DAE.format(numbers=numbers, polygons=f"<{kind}>{inputs}{inner}</{kind}>").encode()


def link(name, geometry, origin=""):
    return f"""<link name="{name}"><inertial><origin xyz="0.1 0 0"/><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
<visual>{origin}<geometry>{geometry}</geometry></visual></link>"""


def arm(upper='<mesh filename="package://arm_description/meshes/box.stl" scale="0.1 0.1 0.1"/>'):
    return f"""<robot name="arm">{link("base", '<cylinder radius="0.1" length="0.2"/>')}
<joint name="a" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 0 1"/>
<limit lower="-2" upper="2" effort="9" velocity="2"/></joint>{link("upper", upper)}
<joint name="b" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0.3 0 0"/><axis xyz="0 1 0"/>
<limit lower="-2" upper="2" effort="9" velocity="2"/></joint>{link("lower", '<sphere radius="0.05"/>')}
<joint name="f" type="fixed"><parent link="lower"/><child link="hand"/><origin xyz="0 0 0.5"/></joint>
{link("hand", '<box size="0.2 0.2 0.2"/>')}</robot>"""


def msh():
    """Return the box in MuJoCo's own format."""
    counts = np.array([len(CORNERS), 0, 0, len(FACES)], "<i4")
    return counts.tobytes() + CORNERS.astype("<f4").tobytes() + FACES.astype("<i4").tobytes()
