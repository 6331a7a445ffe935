"""Compile MJCF with MuJoCo (extra `mjcf`), without the parts that dynamics does not need.

Meshes, textures and height fields are files that may be missing, or numbers that take gigabytes; a mesh matters only if
a body has no inertial. Includes are inserted, and copies are counted before MuJoCo creates them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import nan, prod
from pathlib import Path
from typing import Any, Final
from warnings import catch_warnings, simplefilter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from mindyn.foundation.errors import Code, MissingExtraError, RobotFileError, list_names, pluralise, shorten_text
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.foundation.hints import install_command
from mindyn.foundation.reading import MAX_ENTRIES, InputBudget
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
_USED_EQUALITIES: Final = ("mjEQ_CONNECT", "mjEQ_WELD", "mjEQ_JOINT")
_ACTUATOR_JOINT_KEYS: Final = ("joint", "jointinparent")


def import_mujoco() -> Any:
    """Import mujoco; raise `MissingExtraError` with the install command if it is missing."""
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtraError("MJCF files need MuJoCo", hint=install_command("mjcf"), subject="mujoco") from error
    return mujoco


@dataclass(frozen=True, slots=True)
class CompiledMjcf:
    """Compiled model for dynamics.

    mujoco    the module
    model     mujoco.MjModel
    unknown   names of bodies whose inertia would come from missing meshes; the model has a placeholder
    findings  dropped parts that matter
    actuated  names of joints with an actuator
    texts     <text> elements of <custom> by name
    """

    mujoco: Any
    model: Any
    unknown: frozenset[str]
    findings: tuple[Finding, ...]
    actuated: frozenset[str]
    texts: Mapping[str, str]

    def name(self, kind: str, index: int) -> str:
        """Return the name of an element by its kind, such as "body", and number."""
        named = self.mujoco.mj_id2name(self.model, getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), index)
        return str(named) if named else f"{kind}{index}"


def compile_for_dynamics(path: Path, text: str | None = None, *, keep: Collection[str] = ()) -> CompiledMjcf:
    """Compile a file with its includes, without unused sections other than `keep`; `text` replaces its content."""
    mujoco = import_mujoco()
    root = parse_xml(read_text(path) if text is None else text, path.name)
    preparer = _Preparer(path.parent, opened=(path.resolve(),))
    preparer.include(root)
    actuators = [actuator for section in root.findall("actuator") for actuator in section]
    joints = frozenset(actuator.get(key, "") for actuator in actuators for key in _ACTUATOR_JOINT_KEYS)
    custom = [entry for section in root.findall("custom") for entry in section.iter("text")]
    texts = {entry.get("name", ""): entry.get("data", "") for entry in custom}
    notes = preparer.clean(root, keep)
    try:
        with catch_warnings():
            simplefilter("ignore")  # such as attributes that are deprecated
            spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"), preparer.models)
            others = [entry for entry in spec.equalities if entry.type.name not in _USED_EQUALITIES]
            for entry in others:
                spec.delete(entry)
            unknown, missing = _strip_geoms(mujoco, spec)
            model = spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        message = f"MuJoCo cannot compile {path.name}: {shorten_text(str(error), 600)}"
        raise RobotFileError(message, subject=path.name, code=Code.UNREADABLE) from error
    if others:
        message = f"dropped {pluralise(len(others), 'equality constraint')} of tendons or flexible bodies in the MJCF"
        notes.append(info(Kind.DROPPED_PART, message))
    if missing:
        files = f"{pluralise(len(missing), 'mesh file')} missing"
        message = f"{files}, but not needed: the bodies have inertials"
        if unknown:
            message = f"{files}, without which the inertia of these bodies is unknown: {list_names(unknown)}"
        notes.append(info(Kind.MESH, message, *missing))
    return CompiledMjcf(mujoco, model, frozenset(unknown), tuple(notes), joints, texts)


def compile_mjcf(path: Path) -> tuple[Any, list[str]]:
    """Compile a file; if that fails, as without its meshes, compile the parts that dynamics needs and return why."""
    mujoco = import_mujoco()
    try:
        return mujoco.MjModel.from_xml_path(str(path)), []
    except (ValueError, mujoco.FatalError) as error:
        return compile_for_dynamics(path).model, str(error).splitlines()[:1]


def _strip_geoms(mujoco: Any, spec: Any) -> tuple[list[str], list[str]]:
    """Remove geoms and meshes that no inertia needs; return the bodies of unknown inertia and the missing meshes.

    These bodies, which would get their inertia from a missing mesh or from nothing, get a placeholder.
    """
    by_geoms = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    missing = [mesh.name for mesh in spec.meshes if mesh.file and not _is_mesh_file(Path(mesh.file))]
    needed: set[str] = set()
    unknown = []
    for number, body in enumerate(spec.bodies):
        geoms, has_inertial = list(body.geoms), body.explicitinertial and not by_geoms
        counted = [geom for geom in geoms if geom.meshname and geom.mass != 0 and not has_inertial and number]
        absent = any(geom.meshname in missing for geom in counted)
        if absent or (body.joints and not geoms and not body.explicitinertial):
            unknown.append(body.name or f"body{number}")
            body.explicitinertial, body.mass, body.inertia = True, 1.0, (1.0, 1.0, 1.0)
            body.fullinertia = (nan, 0.0, 0.0, 0.0, 0.0, 0.0)  # not given
            counted = []
        needed |= {geom.meshname for geom in counted}
        for geom in geoms:
            if number == 0 or (geom.meshname and geom not in counted):
                spec.delete(geom)
    for mesh in [mesh for mesh in spec.meshes if mesh.name not in needed]:
        spec.delete(mesh)
    return unknown, missing


def _is_mesh_file(path: Path) -> bool:
    """Whether a mesh file exists and is not too large."""
    try:
        return path.is_file() and path.stat().st_size <= MAX_FILE_BYTES
    except (OSError, ValueError):
        return False


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

    def clean(self, root: Element, keep: Collection[str] = ()) -> list[Finding]:
        """Remove parts that MuJoCo need not read, and set absolute paths of meshes; return findings about the parts."""
        notes = [
            info(Kind.DROPPED_PART, f"{count} {what} of the MJCF were dropped")
            for section, what in _REPORTED_SECTIONS.items()
            if (count := sum(len(element) for element in root.findall(section)))
        ]
        closed = any(True for part in root.findall("equality") for entry in part if entry.tag in ("connect", "weld"))
        for section in [element for element in root if element.tag in _UNUSED_SECTIONS.difference(keep)]:
            if not (closed and section.tag == "keyframe"):
                root.remove(section)
        for key in (key for frames in root.findall("keyframe") for key in frames):
            for attribute in key.attrib.keys() - {"name", "qpos"}:  # other values are those of removed sections
                key.attrib.pop(attribute)
        self.limit_copies(root, 1, self.prepare_models(root))
        for element in root.iter():
            element.attrib.pop("material", None)
            for part in [child for child in element if child.tag in _UNUSED_PARTS]:
                element.remove(part)
        for asset in root.findall("asset"):
            for entry in [entry for entry in asset if entry.tag not in ("mesh", "model")]:
                asset.remove(entry)
        self.locate_meshes(root)
        return notes

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
            preparer = _Preparer(path.parent, opened=(*self.opened, path), models=self.models)
            preparer.include(inner)
            preparer.clean(inner)
            bodies[str(model.get("name") or inner.get("model"))] = preparer.bodies
            model.set("file", f"model{len(self.models)}.xml")
            self.models[model.get("file", "")] = ElementTree.tostring(inner)
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

    def locate_meshes(self, root: Element) -> None:
        """Replace the names of mesh files by absolute paths, and name meshes by their files as MuJoCo does."""
        setting = {key: value for compiler in root.findall("compiler") for key, value in compiler.attrib.items()}
        folder = self.folder / setting.get("meshdir", setting.get("assetdir", ""))
        for mesh in [mesh for asset in root.findall("asset") for mesh in asset.findall("mesh")]:
            if (file := mesh.get("file")) is not None:
                plain = Path(file.replace("\\", "/"))
                mesh.set("name", mesh.get("name") or plain.stem)
                path = folder / (plain.name if setting.get("strippath") == "true" else plain)
                mesh.set("file", str(path.absolute()))
        for compiler in root.findall("compiler"):
            compiler.attrib.pop("strippath", None)


def _parse_counts(text: str) -> list[int]:
    try:
        return [max(1, int(float(word))) for word in text.split()]
    except (ValueError, OverflowError):
        return [MAX_BODIES + 1]
