"""Compile MJCF with MuJoCo (extra `mjcf`), without the parts that dynamics does not need.

Meshes, textures and height fields are files that may be missing, or numbers that take gigabytes; a mesh matters only if
a body has no inertial. Includes are inserted, and copies are counted before MuJoCo creates them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import nan, prod
from pathlib import Path
from typing import Any, Final
from warnings import catch_warnings, simplefilter
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from mindyn.foundation.errors import (
    Code,
    MindynError,
    MissingExtraError,
    RobotFileError,
    list_names,
    pluralise,
    shorten_text,
)
from mindyn.foundation.findings import Finding, Kind, info
from mindyn.foundation.hints import install_command
from mindyn.foundation.safe_reading import (
    MAX_BODIES,
    MAX_ENTRIES,
    InputBudget,
    are_limits_active,
    describe_exception,
    is_file,
)
from mindyn.robots.mesh_files import MESH_READERS, read_mesh
from mindyn.robots.safe_robot_files import parse_xml, read_text

MAX_COPIED_ELEMENTS: Final = 10 * MAX_BODIES
"""Elements that <replicate> and <attach> may create together: bodies with their joints, geoms and sites."""
MAX_FLEX_BYTES: Final = 2**20
"""Size of the mesh of a <flexcomp>, which makes a body of each corner."""
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
_USED_EQUALITIES: Final = ("connect", "weld", "joint")
_TETRAHEDRON_CORNERS: Final = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
_TETRAHEDRON_FACES: Final = (0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3)
_COPIED_TAGS: Final = ("joint", "geom", "site", "freejoint", "frame")
_IMPOSSIBLE_INERTIA: Final = "inertia must satisfy A + B >= C"
"""What MuJoCo says of a body with an inertia that no mass distribution has."""
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
    replaced  names of meshes that were replaced by a tetrahedron
    problems  reasons why meshes cannot be read, by name
    """

    mujoco: Any
    model: Any
    unknown: frozenset[str]
    findings: tuple[Finding, ...]
    actuated: frozenset[str]
    texts: Mapping[str, str]
    replaced: frozenset[str] = frozenset()
    problems: Mapping[str, str] = field(default_factory=dict)

    def name(self, kind: str, index: int) -> str:
        """Return the name of an element by its kind, such as "body", and number."""
        named = self.mujoco.mj_id2name(self.model, getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), index)
        return str(named) if named else f"{kind}{index}"


def compile_for_dynamics(path: Path, text: str | None = None, *, keep: Collection[str] = ()) -> CompiledMjcf:
    """Compile a file with its includes, without unused sections other than `keep`; `text` replaces its content."""
    return _compile(path, text, keep, solids=False)


def compile_with_solids(path: Path) -> tuple[Any, frozenset[str], tuple[str, ...]]:
    """Compile a file with its geoms.

    Also return the names of meshes without triangles, and the reason for each of them.

    A mesh that MuJoCo rejects fails the whole file, which is then compiled without all meshes.
    """
    try:
        compiled = _compile(path, None, (), solids=True)
    except RobotFileError as error:
        compiled = compile_for_dynamics(path)
        lost = frozenset(compiled.name("mesh", k) for k in range(compiled.model.nmesh))
        return compiled.model, lost, (error.message,)
    return compiled.model, compiled.replaced, tuple(compiled.problems)


def _compile(path: Path, text: str | None, keep: Collection[str], *, solids: bool) -> CompiledMjcf:
    mujoco = import_mujoco()
    root = parse_xml(read_text(path) if text is None else text, path.name)
    preparer = _Preparer(
        path.parent, opened=(path.resolve(),), budget=InputBudget(path.name, 0, RobotFileError, MAX_ENTRIES)
    )
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
            shapes = _replace_unneeded_shapes(mujoco, spec, preparer.budget, solids=solids)
            model = spec.compile()
    except (ValueError, mujoco.FatalError, MemoryError) as error:
        message = f"MuJoCo cannot compile {path.name}: {shorten_text(str(error), 600)}"
        code = Code.NOT_FEASIBLE if _IMPOSSIBLE_INERTIA in str(error) else Code.UNREADABLE
        raise RobotFileError(message, subject=path.name, code=code) from error
    if shapes.problems:
        files = f"{pluralise(len(shapes.problems), 'mesh file')} missing or unreadable"
        message = f"{files}, but not needed: the bodies have inertials"
        if shapes.unknown:
            message = f"{files}, without which the inertia of these bodies is unknown: {list_names(shapes.unknown)}"
        notes.append(info(Kind.MESH, message, *shapes.problems))
    unknown, replaced = frozenset(shapes.unknown), frozenset(shapes.replaced)
    return CompiledMjcf(mujoco, model, unknown, tuple(notes), joints, texts, replaced, shapes.problems)


@dataclass(slots=True)
class _ReplacedShapes:
    """Bodies of unknown inertia, meshes that were replaced, and the reason for each mesh that cannot be read."""

    unknown: list[str] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    problems: dict[str, str] = field(default_factory=dict)


def _replace_unneeded_shapes(mujoco: Any, spec: Any, budget: InputBudget, *, solids: bool) -> _ReplacedShapes:
    """Replace geoms and meshes that neither an inertia nor `solids` need by small ones that need no file.

    Bodies without inertia, and bodies whose inertia would come from a missing mesh, get a placeholder. Nothing is
    deleted: each deletion takes MuJoCo a time proportional to the size of the model.
    """
    by_geoms = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    shapes, needed, meshes = _ReplacedShapes(), set(), list(spec.meshes)
    for mesh in meshes:
        if mesh.file and not is_file(mesh.file):
            shapes.problems[mesh.name] = "it is missing"
    uses: Counter[str] = Counter()
    for number, body in enumerate(spec.bodies):
        geoms, has_inertial = list(body.geoms), body.explicitinertial and not by_geoms
        counted = [geom.meshname for geom in geoms if geom.meshname and geom.mass != 0 and not has_inertial and number]
        uses.update(geom.meshname for geom in geoms if geom.meshname)
        if any(name in shapes.problems for name in counted) or _has_no_inertia(body, geoms):
            shapes.unknown.append(body.name or f"body{number}")
            _set_placeholder(body)
            counted = []
        needed.update(counted)
        for geom in geoms:
            if (number == 0 and not solids) or geom.hfieldname:
                _make_plane(mujoco, geom)
    for mesh in meshes:
        reason = shapes.problems.get(mesh.name, "")
        if not reason and (mesh.name in needed or (solids and uses[mesh.name])):
            reason = _check_mesh(mesh, budget, uses[mesh.name] if solids else 1)
            if reason and mesh.name in needed:
                raise RobotFileError(f"mesh {mesh.name!r}: {reason}", code=Code.UNREADABLE, subject=mesh.name)
            if reason:
                shapes.problems[mesh.name] = reason
        if reason or not (mesh.name in needed or solids):
            _make_tetrahedron(mujoco, mesh)
            shapes.replaced.add(mesh.name)
    return shapes


def _has_no_inertia(body: Any, geoms: list[Any]) -> bool:
    return bool(body.joints) and not geoms and not body.explicitinertial


def _set_placeholder(body: Any) -> None:
    body.explicitinertial, body.mass, body.inertia = True, 1.0, (1.0, 1.0, 1.0)
    body.fullinertia = (nan, 0.0, 0.0, 0.0, 0.0, 0.0)  # not given


def _make_plane(mujoco: Any, geom: Any) -> None:
    """Turn a geom of the surroundings into a plane, which needs no file."""
    geom.type, geom.size, geom.pos, geom.quat = mujoco.mjtGeom.mjGEOM_PLANE, (1.0, 1.0, 1.0), (0.0,) * 3, (1.0, 0, 0, 0)
    geom.fromto = (nan,) * 6
    geom.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
    geom.meshname = geom.hfieldname = ""


def _make_tetrahedron(mujoco: Any, mesh: Any) -> None:
    """Turn a mesh into a tetrahedron, which needs no file."""
    mesh.file, mesh.scale, mesh.refpos, mesh.refquat = "", (1.0,) * 3, (0.0,) * 3, (1.0, 0, 0, 0)
    mesh.usernormal, mesh.usertexcoord, mesh.userfacenormal, mesh.userfacetexcoord = [], [], [], []
    mesh.uservert, mesh.userface = _TETRAHEDRON_CORNERS, _TETRAHEDRON_FACES
    mesh.inertia, mesh.maxhullvert = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX, -1


def _check_mesh(mesh: Any, budget: InputBudget, uses: int) -> str:
    """Return why MuJoCo should not read a mesh, or "" if MuJoCo can read it.

    Count the file and its triangles once for each use.
    """
    try:
        if not mesh.file:
            budget.take_triangles(max(1, len(mesh.userface) // 3, len(mesh.uservert) // 3) * uses)
        elif Path(mesh.file).suffix.lower() in MESH_READERS:
            triangles = len(read_mesh(Path(mesh.file), budget).faces)
            budget.take_triangles(triangles * max(0, uses - 1))
        else:
            budget.take_file(Path(mesh.file), "mesh")
    except MindynError as error:
        return error.message
    return ""


def read_with_includes(path: Path) -> tuple[Element, int]:
    """Read a file unchanged, with comments and inserted includes; also return the number of included files."""
    root = parse_xml(read_text(path), path.name, comments=True)
    budget = InputBudget(path.name, 0, RobotFileError, MAX_ENTRIES)
    preparer = _Preparer(path.parent, budget, comments=True)
    preparer.include(root)
    return root, preparer.included


@dataclass(slots=True)
class _Preparer:
    """Preparation of one file; all files that it includes or attaches share the budget.

    bodies    bodies of this file with all copies
    elements  bodies with their joints, geoms and sites
    copied    those of the elements that are copies
    """

    folder: Path
    budget: InputBudget
    comments: bool = False
    included: int = 0
    opened: tuple[Path, ...] = ()
    models: dict[str, bytes] = field(default_factory=dict)
    bodies: int = 0
    elements: int = 0
    copied: int = 0

    def clean(self, root: Element, keep: Collection[str] = ()) -> list[Finding]:
        """Remove parts that MuJoCo need not read, and make the paths of meshes absolute.

        Return findings about the removed parts.
        """
        notes = [
            info(Kind.DROPPED_PART, f"{count} {what} of the MJCF were dropped")
            for section, what in _REPORTED_SECTIONS.items()
            if section not in keep and (count := sum(len(element) for element in root.findall(section)))
        ]
        if "tendon" not in keep and (others := _remove_equalities(root)):
            message = f"dropped {pluralise(others, 'equality constraint')} of tendons or flexible bodies in the MJCF"
            notes.append(info(Kind.DROPPED_PART, message))
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
            if any(child.tag in _UNUSED_PARTS for child in element):
                element[:] = [child for child in element if child.tag not in _UNUSED_PARTS]
        for asset in root.findall("asset"):
            asset[:] = [entry for entry in asset if entry.tag in ("mesh", "model")]
        self.locate_meshes(root)
        return notes

    def prepare_models(self, root: Element) -> dict[str, _Preparer]:
        """Prepare the files that <attach> copies from. Return the preparation of each model by its name."""
        prepared = {}
        for model in [model for asset in root.findall("asset") for model in asset.findall("model")]:
            path = self.resolve(model.get("file", ""))
            if not is_file(path) or path in self.opened or len(self.models) >= MAX_INCLUDES:
                file = shorten_text(model.get("file", ""), 100)
                message = f"the attached model {file!r} is missing, attaches itself, or exceeds {MAX_INCLUDES} models"
                raise RobotFileError(message, code=Code.MISSING_FILE, subject=file)
            self.budget.require_include_depth(len(self.opened))
            self.budget.take_file(path, "attached model")
            inner = parse_xml(read_text(path), path.name)
            preparer = _Preparer(path.parent, self.budget, opened=(*self.opened, path), models=self.models)
            preparer.include(inner)
            preparer.clean(inner)
            prepared[str(model.get("name") or inner.get("model"))] = preparer
            model.set("file", f"model{len(self.models)}.xml")
            self.models[model.get("file", "")] = ElementTree.tostring(inner)
        return prepared

    def resolve(self, name: str) -> Path:
        """Return the absolute path of a file that this file names."""
        try:
            return (self.folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:  # a name too long, with NUL, or a loop of links
            file = shorten_text(name, 100)
            message = f"the MJCF names {file!r}, which is not a file: {describe_exception(error)}"
            raise RobotFileError(message, code=Code.MISSING_FILE, subject=file) from error

    def include(self, parent: Element, depth: int = 0) -> None:
        """Replace every <include file="..."/> by the content of that file's root."""
        self.budget.require_include_depth(depth)
        for place, element in reversed(list(enumerate(parent))):
            if element.tag != "include":
                self.include(element, depth)
                continue
            self.included += 1
            if self.included > MAX_INCLUDES:
                message = f"the MJCF includes more than {MAX_INCLUDES} files; does a file include itself?"
                raise RobotFileError(message, code=Code.UNSAFE_INPUT, subject=element.get("file", ""))
            name = element.get("file", "")
            path = self.folder / name
            if not is_file(path):
                message = f"the MJCF includes {shorten_text(name, 100)!r}, which does not exist or cannot be read"
                raise RobotFileError(message, code=Code.MISSING_FILE, subject=name)
            self.budget.take_file(path, "included file")
            text = read_text(path)
            self.budget.take_keys(text.count("<") + text.count("="))
            root = parse_xml(text, path.name, comments=self.comments)
            self.include(root, depth + 1)
            parent[place : place + 1] = list(root)

    def limit_copies(self, element: Element, copies: int, attached: Mapping[str, _Preparer]) -> None:
        """Count bodies; raise if a model creates too many copies or too large a mesh."""
        if element.tag in ("body", "attach"):
            model = attached.get(element.get("model", "")) if element.tag == "attach" else None
            self.count(element.tag, copies, *((1, 1) if model is None else (model.bodies, model.elements)))
        elif element.tag in _COPIED_TAGS:
            self.count(element.tag, copies, 0, 1)
        if element.get("builtin") and max(_parse_counts(element.get("params", "1")), default=1) > MAX_MESH_PARAMETER:
            message = f"a built-in mesh of the MJCF has a parameter above {MAX_MESH_PARAMETER}"
            raise RobotFileError(message, code=Code.UNSAFE_INPUT, subject=element.get("name", ""))
        if element.tag in ("replicate", "composite", "flexcomp"):
            copies *= prod(_parse_counts(element.get("count", "1")))
            self.count(element.tag, copies, 0, 0)
        if element.tag == "flexcomp" and element.get("file"):
            self.limit_flex_file(element)
        for child in element:
            self.limit_copies(child, copies, attached)

    def count(self, tag: str, copies: int, bodies: int, elements: int) -> None:
        """Count bodies and elements; raise if there are too many."""
        self.bodies += copies * bodies
        self.elements += copies * elements
        self.copied += (copies if tag == "attach" else copies - 1) * elements
        too_many = max(copies, self.bodies) > MAX_BODIES or self.copied > MAX_COPIED_ELEMENTS
        if too_many and are_limits_active():
            raise RobotFileError(
                f"<{tag}> of the MJCF creates more than {MAX_BODIES} bodies, or {MAX_COPIED_ELEMENTS} copied elements",
                hint="check its count and the models that it attaches, which multiply",
                code=Code.UNSAFE_INPUT,
                subject=tag,
            )

    def limit_flex_file(self, element: Element) -> None:
        """Raise if a flexible body is made of a missing or large mesh."""
        name = element.get("file", "")
        size = self.budget.take_file(self.resolve(name), "mesh of a <flexcomp>")
        if size > MAX_FLEX_BYTES and are_limits_active():
            message = f"the mesh {shorten_text(name, 100)!r} of a <flexcomp> has {size} bytes, at most {MAX_FLEX_BYTES}"
            raise RobotFileError(message, code=Code.TOO_LARGE, subject=name)

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


def _remove_equalities(root: Element) -> int:
    """Remove constraints of tendons and flexible bodies; return their number."""
    removed = 0
    for section in root.findall("equality"):
        kept = [entry for entry in section if entry.tag in _USED_EQUALITIES]
        removed += len(section) - len(kept)
        section[:] = kept
    return removed


def _parse_counts(text: str) -> list[int]:
    try:
        return [max(1, int(float(word))) for word in text.split()]
    except (ValueError, OverflowError):
        return [MAX_BODIES + 1]
