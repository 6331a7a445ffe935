"""Prepare MJCF for MuJoCo: remove parts that dynamics does not need, so that nothing is opened or generated for them.

Meshes, textures and height fields are files that may be missing, or numbers that take gigabytes; a mesh matters only if
a body has no inertial. Includes are inserted, and copies are counted before they are created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from mindyn.errors import Code, RobotFileError, list_names, shorten_text
from mindyn.findings import Finding, Kind, info
from mindyn.reading import MAX_ENTRIES, InputBudget
from mindyn.robots.files import MAX_FILE_BYTES, parse_xml, read_text

MAX_BODIES: Final = 10_000
"""Bodies that <replicate>, <composite> and <flexcomp> may create together."""
MAX_INCLUDES: Final = 100
"""Files that a model may include or attach."""
MAX_MESH_PARAMETER: Final = 500
"""Resolution of a mesh that MuJoCo generates; the number of vertices is its square."""
_UNUSED_SECTIONS: Final = {
    *("visual", "statistic", "custom", "extension", "size", "keyframe", "sensor", "contact", "deformable"),
    *("actuator", "tendon"),
}
"""Sections that the reader does not use."""
_UNUSED_PARTS: Final = {"light", "camera", "plugin"}
_REPORTED_SECTIONS: Final = {"actuator": "actuators", "tendon": "tendons", "deformable": "deformable bodies"}
"""Dropped sections that affect the motion, which are therefore reported."""
_OTHER_EQUALITIES: Final = {"tendon", "flex", "flexvert", "flexstrain", "distance"}
_ACTUATOR_JOINT_KEYS: Final = ("joint", "jointinparent")
_PLACEHOLDER_INERTIAL: Final = {"pos": "0 0 0", "mass": "1", "diaginertia": "1 1 1"}


@dataclass(slots=True)
class MjcfSource:
    """Model for MuJoCo.

    text      the XML
    unknown   names of bodies whose inertia would come from missing meshes; the text has a placeholder
    findings  dropped parts that matter
    actuated  names of joints with an actuator
    texts     <text> elements of <custom> by name
    models    prepared files that <attach> copies from, by the name that the text uses
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
    """Read a file with its includes and remove unused parts; `text` replaces the content of the file."""
    return _Preparer(path.parent, opened=(path.resolve(),)).source(
        parse_xml(read_text(path) if text is None else text, path.name)
    )


def read_with_includes(path: Path) -> tuple[Element, int]:
    """Read a file unchanged, with comments and inserted includes; also return the number of included files."""
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
            info(Kind.DROPPED_PART, f"{count} {what} of the MJCF were dropped")
            for section, what in _REPORTED_SECTIONS.items()
            if (count := sum(len(element) for element in root.findall(section)))
        ]
        actuators = [actuator for section in root.findall("actuator") for actuator in section]
        actuated = {actuator.get(key) for actuator in actuators for key in _ACTUATOR_JOINT_KEYS}
        custom = [text for section in root.findall("custom") for text in section.iter("text")]
        texts = {text.get("name", ""): text.get("data", "") for text in custom}
        closed = any(True for part in root.findall("equality") for entry in part if entry.tag in ("connect", "weld"))
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
            message = f"{len(self.skipped)} mesh files are missing, but not needed: the bodies have inertials"
            if self.unknown:
                message = f"{len(self.skipped)} mesh files are missing; unknown without them is the inertia of: "
                message += list_names(self.unknown)
            notes.append(info(Kind.MESH, message, *self.skipped))
        text = ElementTree.tostring(root, encoding="unicode")
        joints = frozenset(name for name in actuated if name is not None)
        return MjcfSource(text, frozenset(self.unknown), tuple(notes), joints, texts, self.models, self.bodies)

    def prepare_models(self, root: Element) -> dict[str, int]:
        """Prepare the files that <attach> copies from; return the number of bodies by model name."""
        bodies = {}
        for model in [model for asset in root.findall("asset") for model in asset.findall("model")]:
            path = (self.folder / model.get("file", "")).resolve()
            if not path.is_file() or path in self.opened or len(self.models) >= MAX_INCLUDES:
                file = shorten_text(model.get("file", ""), 100)
                message = f"the attached model {file!r} is missing, attaches itself, or exceeds {MAX_INCLUDES} models"
                raise RobotFileError(message, code=Code.MISSING_FILE, subject=file)
            inner = parse_xml(read_text(path), path.name)
            source = _Preparer(path.parent, opened=(*self.opened, path), models=self.models).source(inner)
            name = str(model.get("name") or inner.get("model"))
            bodies[name] = source.bodies
            self.unknown += [
                attach.get("prefix", "") + body
                for attach in root.iter("attach")
                if attach.get("model") == name
                for body in source.unknown
            ]
            model.set("file", f"model{len(self.models)}.xml")
            self.models[model.get("file", "")] = source.text.encode()
        return bodies

    def include(self, parent: Element) -> None:
        """Replace every <include file="..."/> by the content of that file's root."""
        for place, element in reversed(list(enumerate(parent))):
            if element.tag != "include":
                self.include(element)
                continue
            self.included += 1
            if self.included > MAX_INCLUDES:
                message = f"the MJCF includes more than {MAX_INCLUDES} files; does a file include itself?"
                raise RobotFileError(message, code=Code.UNSAFE_INPUT, subject=element.get("file", ""))
            name = element.get("file", "")
            path = self.folder / name
            if not path.is_file():
                message = f"the MJCF includes {shorten_text(name, 100)!r}, which does not exist"
                raise RobotFileError(message, code=Code.MISSING_FILE, subject=name)
            text = read_text(path)
            self.elements.take_keys(text.count("<") + text.count("="))
            root = parse_xml(text, path.name, comments=self.comments)
            self.include(root)
            parent[place : place + 1] = list(root)

    def limit_copies(self, element: Element, copies: int, attached: Mapping[str, int]) -> None:
        """Count bodies; raise if a model creates too many copies or too large a mesh."""
        if element.tag in ("body", "attach"):
            self.bodies += copies * (attached.get(element.get("model", ""), 1) if element.tag == "attach" else 1)
        if element.get("builtin") and max(_parse_counts(element.get("params", "1")), default=1) > MAX_MESH_PARAMETER:
            message = f"a built-in mesh of the MJCF has a parameter above {MAX_MESH_PARAMETER}"
            raise RobotFileError(message, code=Code.UNSAFE_INPUT, subject=element.get("name", ""))
        if element.tag in ("replicate", "composite", "flexcomp"):
            copies *= prod(_parse_counts(element.get("count", "1")))
        if max(copies, self.bodies) > MAX_BODIES:
            raise RobotFileError(
                f"<{element.tag}> of the MJCF creates more than {MAX_BODIES} bodies",
                hint="check its count and the models that it attaches, which multiply",
                code=Code.UNSAFE_INPUT,
                subject=element.tag,
            )
        for child in element:
            self.limit_copies(child, copies, attached)

    def drop_equalities(self, root: Element) -> list[Finding]:
        """Remove constraints on tendons and flexible bodies."""
        others = [
            (parent, entry) for parent in root.findall("equality") for entry in parent if entry.tag in _OTHER_EQUALITIES
        ]
        for parent, entry in others:
            parent.remove(entry)
        message = f"{len(others)} equalities of tendons and flexible bodies in the MJCF were dropped"
        return [info(Kind.DROPPED_PART, message)] if others else []

    def strip(self, root: Element) -> None:
        """Remove assets, and the geoms that need them if the body has an inertial."""
        compilers = root.findall("compiler")
        setting = {key: value for compiler in compilers for key, value in compiler.attrib.items()}
        by_geoms = setting.get("inertiafromgeom", "auto") == "true"
        meshes = {_mesh_name(mesh): mesh for asset in root.findall("asset") for mesh in asset.findall("mesh")}
        folder = self.folder / setting.get("meshdir", setting.get("assetdir", ""))
        files = {name: self.mesh_file(mesh, folder, setting) for name, mesh in meshes.items()}
        needed: set[str] = set()
        for body in root.iter("body"):
            has_inertial = body.find("inertial") is not None and not by_geoms
            geoms = list(_find_geoms(body))
            counted = [
                g
                for _, g in geoms
                if g.get("mesh") is not None and not has_inertial and g.get("mass") not in ("0", "0.0")
            ]
            absent = [str(g.get("mesh")) for g in counted if files.get(str(g.get("mesh"))) is None]
            moves = any(child.tag in ("joint", "freejoint") for child in body)
            if absent or (moves and not geoms and body.find("inertial") is None):
                self.unknown.append(body.get("name", ""))
                for old in body.findall("inertial"):
                    body.remove(old)
                body.insert(0, Element("inertial", _PLACEHOLDER_INERTIAL))
            else:
                needed |= {str(g.get("mesh")) for g in counted}
            for parent, geom in geoms:
                if geom.get("mesh") is not None and (absent or geom not in counted):
                    parent.remove(geom)
        for world in root.findall("worldbody"):
            for parent, geom in list(_find_geoms(world)):
                parent.remove(geom)
        for asset in root.findall("asset"):
            for entry in list(asset):
                if entry.tag != "model" and not (entry.tag == "mesh" and _mesh_name(entry) in needed):
                    asset.remove(entry)
        self.skipped += [name for name, file in files.items() if file is None]
        for mesh in (meshes[name] for name in needed if name in meshes):
            if mesh.get("file") is not None:
                mesh.set("file", str(files[_mesh_name(mesh)]))
        for element in root.iter():
            element.attrib.pop("material", None)
            for part in [child for child in element if child.tag in _UNUSED_PARTS]:
                element.remove(part)

    def mesh_file(self, mesh: Element, folder: Path, setting: dict[str, str]) -> Path | None:
        """Return the path of a mesh file; None if it is missing or too large."""
        name = mesh.get("file")
        if name is None:
            return Path()  # the model contains the vertices
        plain = Path(name.replace("\\", "/"))
        path = folder / (plain.name if setting.get("strippath") == "true" else plain)
        try:
            usable = path.is_file() and path.stat().st_size <= MAX_FILE_BYTES
        except (OSError, ValueError):
            return None
        return path.resolve() if usable else None


def _keep_keyframe_positions(root: Element) -> None:
    """Keep only the positions of keyframes, because the sections of their other values are removed."""
    for frames in root.findall("keyframe"):
        for key in frames:
            for attribute in [name for name in key.attrib if name not in ("name", "qpos")]:
                key.attrib.pop(attribute)


def _mesh_name(mesh: Element) -> str:
    return mesh.get("name") or Path(mesh.get("file", "").replace("\\", "/")).stem


def _find_geoms(body: Element) -> Iterator[tuple[Element, Element]]:
    """Yield the geoms of a body with their parents, including those in <frame> and <replicate>."""
    for child in list(body):
        if child.tag == "geom":
            yield body, child
        elif child.tag in ("frame", "replicate"):
            yield from _find_geoms(child)


def _take_default_meshes(root: Element) -> dict[str, str]:
    """Return the default mesh of each geom class and remove it from the defaults."""
    meshes: dict[str, str] = {}

    def visit(element: Element, name: str, inherited: str | None) -> None:
        geom = element.find("geom")
        mesh = inherited if geom is None else geom.attrib.pop("mesh", inherited)
        if mesh is not None:
            meshes[name] = mesh
        for child in element.findall("default"):
            visit(child, child.get("class", ""), mesh)

    for element in root.findall("default"):
        visit(element, element.get("class", "main"), None)
    return meshes


def _write_mesh_names(body: Element, childclass: str, meshes: dict[str, str]) -> None:
    """Write the default mesh of its class to every geom that names none."""
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
