"""A small arm as URDF, and the settings of a short search."""

from __future__ import annotations

from typing import Any

import mindyn

LINK = """<link name="{name}"><inertial><origin xyz="{com}"/><mass value="2"/>
<inertia ixx="0.02" iyy="0.02" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>{body}</link>"""
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}"/>
<axis xyz="{axis}"/><limit lower="-2" upper="2" velocity="2" effort="80"{more}/></joint>"""
BOX = '<{tag}><origin xyz="0 0 0.15"/><geometry>{shape}</geometry></{tag}>'


def urdf(*, flange: str = "", forearm: str = "", more: str = "") -> str:
    """Return a URDF of an arm with three joints and a flange; `more` goes into every limit."""
    joints = [
        ("waist", "revolute", "base", "turret", "0 0 0.1", "0 0 1"),
        ("shoulder", "revolute", "turret", "upper", "0 0 0.1", "0 1 0"),
        ("elbow", "revolute", "upper", "forearm", "0 0 0.3", "0 1 0"),
        ("mount", "fixed", "forearm", "flange", "0 0 0.3", "0 0 1"),
    ]
    links = [
        LINK.format(name=n, com="0 0 0.15", body=forearm if n == "forearm" else "")
        for n in ("turret", "upper", "forearm")
    ]
    formatted = [
        JOINT.format(name=n, kind=k, parent=p, child=c, xyz=x, axis=a, more=more) for n, k, p, c, x, a in joints
    ]
    parts = ['<link name="base"/>', *links, f'<link name="flange">{flange}</link>', *formatted]
    return f'<robot name="arm">{"".join(parts)}</robot>'


SHORT: dict[str, Any] = {
    "seconds": 6.0,
    "family": mindyn.Fourier(2),
    "starts": 1,
    "noise": 1.0,
    "rate_hz": 20.0,
    "deadline_s": 0.5,
}
