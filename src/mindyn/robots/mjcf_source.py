"""MJCF as it is given to MuJoCo: what dynamics do not need is taken out first, so that nothing of it is opened or made.

Meshes, textures and height fields are files that others do not have, or numbers that cost gigabytes; a mesh counts only
where a body states no inertial. Includes are put in their place, copies are counted before they are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from mindyn.errors import RobotFileError, list_names, shorten_text
from mindyn.findings import Finding, Kind, info
from mindyn.reading import MAX_ENTRIES, InputBudget
from mindyn.robots.files import MAX_FILE_BYTES, parse_xml, read_text

MAX_BODIES: Final = 10_000
"""Bodies that <replicate>, <composite> and <flexcomp> may make together."""
MAX_INCLUDES: Final = 100
"""Files that a model may include, or attach."""
MAX_MESH_PARAMETER: Final = 500
"""Parameters of a mesh that MuJoCo makes itself: its vertices are their square."""
_UNUSED_SECTIONS: Final = {
    *("visual", "statistic", "custom", "extension", "size", "keyframe", "sensor", "contact", "deformable"),
    *("actuator", "tendon"),
}
"""Sections that the reader does not use."""
_UNUSED_PARTS: Final = {"light", "camera", "plugin"}
_REPORTED_SECTIONS: Final = {"actuator": "actuators", "tendon": "tendons", "deformable": "deformable bodies"}
"""Sections with an effect on the motion: that they are left out is said."""
_OTHER_EQUALITIES: Final = {"tendon", "flex", "flexvert", "flexstrain", "distance"}
_ACTUATOR_JOINT_KEYS: Final = ("joint", "jointinparent")
_PLACEHOLDER_INERTIAL: Final = {"pos": "0 0 0", "mass": "1", "diaginertia": "1 1 1"}


@dataclass(slots=True)
class MjcfSource:
    """A model for MuJoCo.

    text     the XML
    unknown  names of bodies whose inertia would come from meshes that are absent: a stand-in is in the text
    notes    what was taken out and matters
    actuated  names of the joints that actuators act on
    texts     <text> of <custom> by name
    models    files that <attach> copies from, prepared in the same way, by the name that the text uses
    bodies    number of bodies, copies included
    """

    text: str
    unknown: frozenset[str]
    findings: tuple[Finding, ...]
    actuated: frozenset[str] = frozenset()
    texts: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, bytes] = field(default_factory=dict)
    bodies: int = 0


def prepare_mjcf(path: Path, text: str | None = None) -> MjcfSource:
    """The file with its includes, without what is not used; `text` in place of what the file holds."""
    return _Preparer(path.parent, opened=(path.resolve(),)).source(
        parse_xml(read_text(path) if text is None else text, path.name)
    )


def read_with_includes(path: Path) -> tuple[Element, int]:
    """The file as it is, with comments and with what it includes in place; and how many files that were."""
    root = parse_xml(read_text(path), path.name, comments=True)
    preparer = _Preparer(path.parent, comments=True)
    preparer.include(root)
    return root, preparer.included


@dataclass(slots=True)
class _Preparer:
    folder: Path
    comments: bool = False
    included: int = 0
    elements: InputBudget = field(default_factory=lambda: InputBudget("the MJCF", 0, RobotFileError, MAX_ENTRIES))
    opened: tuple[Path, ...] = ()
    models: dict[str, bytes] = field(default_factory=dict)
    bodies: int = 0
    skipped: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def source(self, root: Element) -> MjcfSource:
        self.include(root)
        notes = [
            info(Kind.DROPPED_PART, f"{count} {what} of the MJCF were left out")
            for section, what in _REPORTED_SECTIONS.items()
            if (count := sum(len(element) for element in root.findall(section)))
        ]
        actuated = {one.get(key) for part in root.findall("actuator") for one in part for key in _ACTUATOR_JOINT_KEYS}
        texts = {
            one.get("name", ""): one.get("data", "") for part in root.findall("custom") for one in part.iter("text")
        }
        closed = any(True for part in root.findall("equality") for one in part if one.tag in ("connect", "weld"))
        for section in [element for element in root if element.tag in _UNUSED_SECTIONS]:
            if not (closed and section.tag == "keyframe"):
                root.remove(section)
        _keep_keyframe_positions(root)
        self.limit_copies(root, 1, self.prepare_models(root))
        notes += self.drop_equalities(root)
        meshes = _take_default_meshes(root)
        for world in root.findall("worldbody"):
            _write_mesh_names(world, "main", meshes)
        self.strip(root)
        if self.skipped:
            said = f"{len(self.skipped)} mesh files are absent; they were not needed: inertials are stated"
            if self.unknown:
                said = f"{len(self.skipped)} mesh files are absent; unknown without them is the inertia of: "
                said += list_names(self.unknown)
            notes.append(info(Kind.MESH, said, *self.skipped))
        text = ElementTree.tostring(root, encoding="unicode")
        joints = frozenset(name for name in actuated if name is not None)
        return MjcfSource(text, frozenset(self.unknown), tuple(notes), joints, texts, self.models, self.bodies)

    def prepare_models(self, root: Element) -> dict[str, int]:
        """Prepare the files that <attach> copies from; number of bodies by the name of each model."""
        bodies = {}
        for model in [one for asset in root.findall("asset") for one in asset.findall("model")]:
            path = (self.folder / model.get("file", "")).resolve()
            if not path.is_file() or path in self.opened or len(self.models) >= MAX_INCLUDES:
                raise RobotFileError(
                    f"the MJCF attaches the model {shorten_text(model.get('file', ''), 100)!r}, which is not there, "
                    f"attaches itself, or is one of more than {MAX_INCLUDES}"
                )
            inner = parse_xml(read_text(path), path.name)
            source = _Preparer(path.parent, opened=(*self.opened, path), models=self.models).source(inner)
            name = str(model.get("name") or inner.get("model"))
            bodies[name] = source.bodies
            self.unknown += [
                one.get("prefix", "") + body
                for one in root.iter("attach")
                if one.get("model") == name
                for body in source.unknown
            ]
            model.set("file", f"model{len(self.models)}.xml")
            self.models[model.get("file", "")] = source.text.encode()
        return bodies

    def include(self, parent: Element) -> None:
        """Every <include file="..."/> replaced by what the root of that file holds."""
        for place, element in reversed(list(enumerate(parent))):
            if element.tag != "include":
                self.include(element)
                continue
            self.included += 1
            if self.included > MAX_INCLUDES:
                raise RobotFileError(f"more than {MAX_INCLUDES} files are included; does a file include itself?")
            name = element.get("file", "")
            path = self.folder / name
            if not path.is_file():
                raise RobotFileError(f"the MJCF includes {shorten_text(name, 100)!r}, which is not there")
            text = read_text(path)
            self.elements.take_keys(text.count("<") + text.count("="))
            root = parse_xml(text, path.name, comments=self.comments)
            self.include(root)
            parent[place : place + 1] = list(root)

    def limit_copies(self, element: Element, copies: int, attached: Mapping[str, int]) -> None:
        """Count bodies; raise if a model makes too many copies of its bodies, or a mesh without end."""
        if element.tag in ("body", "attach"):
            self.bodies += copies * (attached.get(element.get("model", ""), 1) if element.tag == "attach" else 1)
        if element.get("builtin") and max(_parse_counts(element.get("params", "1")), default=1) > MAX_MESH_PARAMETER:
            raise RobotFileError(f"a built-in mesh of the MJCF has parameters of more than {MAX_MESH_PARAMETER}")
        if element.tag in ("replicate", "composite", "flexcomp"):
            copies *= prod(_parse_counts(element.get("count", "1")))
        if max(copies, self.bodies) > MAX_BODIES:
            raise RobotFileError(
                f"<{element.tag}> of the MJCF makes more than {MAX_BODIES} bodies, which no arm has",
                hint="its count, or the models that it attaches, multiply",
            )
        for child in element:
            self.limit_copies(child, copies, attached)

    def drop_equalities(self, root: Element) -> list[Finding]:
        """Take out constraints between what is taken out."""
        others = [
            (parent, one) for parent in root.findall("equality") for one in parent if one.tag in _OTHER_EQUALITIES
        ]
        for parent, one in others:
            parent.remove(one)
        said = f"{len(others)} equalities of tendons and flexible bodies in the MJCF were left out"
        return [info(Kind.DROPPED_PART, said)] if others else []

    def strip(self, root: Element) -> None:
        """Take out assets, and geoms that need them where the body's inertial is stated."""
        compilers = root.findall("compiler")
        setting = {key: value for compiler in compilers for key, value in compiler.attrib.items()}
        by_geoms = setting.get("inertiafromgeom", "auto") == "true"
        meshes = {_mesh_name(mesh): mesh for asset in root.findall("asset") for mesh in asset.findall("mesh")}
        folder = self.folder / setting.get("meshdir", setting.get("assetdir", ""))
        files = {name: self.mesh_file(mesh, folder, setting) for name, mesh in meshes.items()}
        needed: set[str] = set()
        for body in root.iter("body"):
            stated = body.find("inertial") is not None and not by_geoms
            here = list(_find_geoms(body))
            counted = [
                g for _, g in here if g.get("mesh") is not None and not stated and g.get("mass") not in ("0", "0.0")
            ]
            absent = [str(g.get("mesh")) for g in counted if files.get(str(g.get("mesh"))) is None]
            moves = any(child.tag in ("joint", "freejoint") for child in body)
            if absent or (moves and not here and body.find("inertial") is None):
                self.unknown.append(body.get("name", ""))
                for old in body.findall("inertial"):
                    body.remove(old)
                body.insert(0, Element("inertial", _PLACEHOLDER_INERTIAL))
            else:
                needed |= {str(g.get("mesh")) for g in counted}
            for parent, geom in here:
                if geom.get("mesh") is not None and (absent or geom not in counted):
                    parent.remove(geom)
        for world in root.findall("worldbody"):
            for parent, geom in list(_find_geoms(world)):
                parent.remove(geom)
        for asset in root.findall("asset"):
            for one in list(asset):
                if one.tag != "model" and not (one.tag == "mesh" and _mesh_name(one) in needed):
                    asset.remove(one)
        self.skipped += [name for name, file in files.items() if file is None]
        for mesh in (meshes[name] for name in needed if name in meshes):
            if mesh.get("file") is not None:
                mesh.set("file", str(files[_mesh_name(mesh)]))
        for element in root.iter():
            element.attrib.pop("material", None)
            for part in [child for child in element if child.tag in _UNUSED_PARTS]:
                element.remove(part)

    def mesh_file(self, mesh: Element, folder: Path, setting: dict[str, str]) -> Path | None:
        """Where the file of a mesh is; None where it is not there, or too large to be a link's."""
        name = mesh.get("file")
        if name is None:
            return Path()  # its vertices stand in the model
        plain = Path(name.replace("\\", "/"))
        path = folder / (plain.name if setting.get("strippath") == "true" else plain)
        try:
            usable = path.is_file() and path.stat().st_size <= MAX_FILE_BYTES
        except (OSError, ValueError):
            return None
        return path.resolve() if usable else None


def _keep_keyframe_positions(root: Element) -> None:
    """Keyframes keep what they say of positions: the sections that the rest is about are taken out."""
    for frames in root.findall("keyframe"):
        for key in frames:
            for attribute in [name for name in key.attrib if name not in ("name", "qpos")]:
                key.attrib.pop(attribute)


def _mesh_name(mesh: Element) -> str:
    return mesh.get("name") or Path(mesh.get("file", "").replace("\\", "/")).stem


def _find_geoms(body: Element) -> Iterator[tuple[Element, Element]]:
    """The geoms of a body itself with their parents: <frame> and <replicate> hold geoms, but are no bodies."""
    for child in list(body):
        if child.tag == "geom":
            yield body, child
        elif child.tag in ("frame", "replicate"):
            yield from _find_geoms(child)


def _take_default_meshes(root: Element) -> dict[str, str]:
    """The mesh that a geom of each class has where it names none; taken out of the defaults."""
    found: dict[str, str] = {}

    def visit(element: Element, name: str, inherited: str | None) -> None:
        geom = element.find("geom")
        mesh = inherited if geom is None else geom.attrib.pop("mesh", inherited)
        if mesh is not None:
            found[name] = mesh
        for child in element.findall("default"):
            visit(child, child.get("class", ""), mesh)

    for element in root.findall("default"):
        visit(element, element.get("class", "main"), None)
    return found


def _write_mesh_names(body: Element, childclass: str, meshes: dict[str, str]) -> None:
    """Write the mesh of its class on every geom that names none."""
    childclass = body.get("childclass", childclass)
    for child in body:
        if child.tag == "geom":
            mesh = meshes.get(child.get("class", childclass))
            if mesh is not None and child.get("mesh") is None:
                child.set("mesh", mesh)
        elif child.tag in ("body", "frame", "replicate"):
            _write_mesh_names(child, childclass, meshes)


def _parse_counts(text: str) -> list[int]:
    try:
        return [max(1, int(float(word))) for word in text.split()]
    except (ValueError, OverflowError):
        return [MAX_BODIES + 1]
