"""Compile Pinocchio in C++ for this CPU, and its inverse dynamics as generated C.

The wheels of Pinocchio and cmeel-eigen contain the headers. Libraries are built once into build/native, which takes a
few minutes. Without a C++ compiler or the headers, `native_peer` prints the reason and returns None.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import casadi
import numpy as np
import pinocchio as pin

import mindyn

SOURCES = Path(__file__).parent / "native"
BUILT = Path(__file__).parents[2] / "build" / "native"
CASADI = Path(casadi.__file__).parent
CPU = ("-O3", "-march=native")
DEFINITIONS = (
    *("BOOST_MPL_LIMIT_LIST_SIZE=30", "BOOST_MPL_LIMIT_VECTOR_SIZE=30", "BOOST_MPL_CFG_NO_PREPROCESSED_HEADERS"),
    "BOOST_FUSION_INVOKE_MAX_ARITY=12",
)
"""What Pinocchio's own build files set for whoever includes its headers."""
LIBRARIES = {
    "peer": ((*CPU, "-DNDEBUG"), ()),
    "traced": (("-O0", f"-I{CASADI / 'include'}"), (f"-L{CASADI}", "-lcasadi", f"-Wl,-rpath,{CASADI}")),
}
"""Flags and libraries of each source; what traces need not be fast itself."""
Pointer = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")


class NativePeer:
    """Pinocchio of one robot: methods compute whole batches of row-major samples, one thread."""

    def __init__(self, robot: mindyn.Robot, library: ctypes.CDLL) -> None:
        numbers, gravity = numbers_of(robot)
        library.peer_make.restype = ctypes.c_void_p
        library.peer_make.argtypes = [ctypes.c_int, Pointer, Pointer]
        self._handle = library.peer_make(robot.joint_count, numbers, gravity)
        self._library = library

    def choose_base(self, base: mindyn.BaseParameters) -> None:
        """Select the columns of the standard regressor that `base_regressor` copies."""
        columns = base_columns(base)
        self._library.peer_choose(
            ctypes.c_void_p(self._handle), (ctypes.c_int * len(columns))(*columns), ctypes.c_int(len(columns))
        )

    def run(self, name: str, motion: np.ndarray, out: np.ndarray) -> None:
        """Run `peer_<name>` over a motion (3, N, n)."""
        function = getattr(self._library, f"peer_{name}")
        function.argtypes = [ctypes.c_void_p, *[Pointer] * 4, ctypes.c_long]
        function(self._handle, *motion, out, motion.shape[1])


def base_columns(base: mindyn.BaseParameters) -> list[int]:
    """Return the columns of Pinocchio's standard regressor that form the base regressor."""
    return list(base.survivors)  # both order the parameters of a link alike


def native_peer(robot: mindyn.Robot) -> NativePeer | None:
    """Return the peer of a robot; None, with the reason on stderr, if it cannot be built."""
    built = library("peer")
    return None if built is None else NativePeer(robot, ctypes.CDLL(str(built)))


def write_traced(robot: mindyn.Robot, folder: Path) -> bool:
    """Write traced.c, Pinocchio's inverse dynamics of the robot as CasADi generates it, into the folder."""
    built = library("traced")
    if built is None:
        return False
    function = ctypes.CDLL(str(built)).traced_write
    function.argtypes = [ctypes.c_int, Pointer, Pointer, ctypes.c_char_p]
    function(robot.joint_count, *numbers_of(robot), str(folder).encode())
    return True


def numbers_of(robot: mindyn.Robot) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers from which native/arm.hpp builds a model."""
    model = mindyn.to_pinocchio(robot)
    rows = []
    for k, joint in enumerate(robot.joints, 1):
        place, body = model.jointPlacements[k], model.inertias[k]
        kind = float(joint.kind == "prismatic")
        rows.append([model.parents[k], kind, *joint.axis, *place.rotation.ravel(), *place.translation,
                     body.mass, *body.lever, *body.inertia.ravel()])  # fmt: skip
    return np.array(rows, dtype=np.float64), np.array(robot.gravity, dtype=np.float64)


def library(name: str) -> Path | None:
    """Return the library, built if necessary; None, with the reason on stderr, if it cannot be built."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return absent("no C++ compiler")
    prefix = include_folder()
    if prefix is None:
        return absent("Pinocchio's or Eigen's headers are not installed (pip install pin cmeel-eigen)")
    flags, linked = LIBRARIES[name]
    include = [f"-I{prefix}", f"-I{prefix / 'eigen3'}", *(f"-D{definition}" for definition in DEFINITIONS)]
    command = [compiler, "-std=c++17", "-shared", "-fPIC", *flags, *include, str(SOURCES / f"{name}.cpp"), *linked]
    text = "".join((SOURCES / item).read_text() for item in ("arm.hpp", f"{name}.cpp"))
    key = hashlib.sha256("\0".join([*command, text, pin.__version__]).encode()).hexdigest()[:16]
    target = BUILT / f"{name}-{key}.so"
    if not target.is_file():
        print(f"compiling {name}.cpp, a few minutes, once ...", file=sys.stderr)
        BUILT.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".part")
        done = subprocess.run([*command, "-o", str(partial)], capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            return absent(f"{name}.cpp does not compile: {(errors or ['?'])[0][:300]}")
        partial.replace(target)
    return target


def include_folder() -> Path | None:
    """Return the folder with the headers of Pinocchio, Boost and Eigen."""
    for parent in Path(pin.__file__).parents:
        result = parent / "include"
        if (result / "pinocchio").is_dir() and (result / "eigen3" / "Eigen").is_dir():
            return result
    return None


def absent(reason: str) -> None:
    print(f"no native peer: {reason}", file=sys.stderr)
