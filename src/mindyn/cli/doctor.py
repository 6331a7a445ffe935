"""`mindyn doctor`: what works on this machine, and how to get what is missing."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal, NamedTuple

import typer

import mindyn
from mindyn.cli.arguments import JSON_OPTION
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.printing import print_status, print_table
from mindyn.numerics.threads import usable_cores


class Extra(NamedTuple):
    """What `pip install 'mindyn[extra]'` adds: a module, the package that it comes with, and what it is for."""

    module: str
    package: str
    purpose: str


EXTRAS: Mapping[str, Extra] = {
    "mjcf": Extra("mujoco", "mujoco", "read MJCF robots"),
    "hdf5": Extra("h5py", "h5py", "read HDF5 logs"),
    "ros": Extra("mcap", "mcap", "read MCAP and rosbag2 logs"),
    "gpu": Extra("cupy", "cupy-cuda12x", "kernels on a GPU"),
    "torch": Extra("torch", "torch", "mindyn.torch"),
    "jax": Extra("jax", "jax", "mindyn.jax"),
    "pinocchio": Extra("pinocchio", "pin", "mindyn.to_pinocchio"),
}

LARGEST_DEVIATION = 1e-12
"""Of a kernel from its CasADi function, relative to the largest torque; rounding alone gives 1e-15."""

COMPILERS = ("cc", "gcc", "clang")
STATE_STYLES = {"missing": "dim", "failed": "red"}
"""How the lines of what is not there look."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found.

    state  "ok"; "missing": something optional is not there; "failed": the core does not work
    says   in words; `values` says the same to scripts
    mend   a command or a sentence that helps
    """

    name: str
    state: Literal["ok", "missing", "failed"]
    message: str
    remedy: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def doctor(as_json: Annotated[bool, JSON_OPTION] = False) -> None:
    """Say what works on this machine and what is missing."""
    findings = [_run_check(name, check) for name, check in CHECKS.items()] + list(check_extras())
    works = all(one.state != "failed" for one in findings)
    if as_json:
        typer.echo(json.dumps(_checks_data(findings, works=works), indent=2))
    else:
        _print_checks(findings)
    if not works:
        print_status("the core of mindyn does not work here\nhint: the lines marked failed say why")
        raise typer.Exit(ExitCode.NO)


def _run_check(name: str, check: Callable[[], Check]) -> Check:
    """A check that breaks is itself what was looked for, whatever it raises."""
    try:
        return check()
    except Exception as error:
        says = f"{type(error).__name__}: {error}".splitlines()[0]
        return Check(name, "failed", says, "pip install --force-reinstall mindyn")


def check_python() -> Check:
    """The interpreter."""
    says = f"{platform.python_version()} at {sys.executable}"
    return Check("python", "ok", says, values={"version": platform.python_version(), "executable": sys.executable})


def check_package() -> Check:
    """mindyn itself: version and place."""
    place = str(Path(mindyn.__file__).parent)
    values = {"version": mindyn.__version__, "folder": place}
    return Check("mindyn", "ok", f"{mindyn.__version__} at {place}", values=values)


def check_processor() -> Check:
    """The CPU that kernels are compiled for, and how many samples they compute at once."""
    from mindyn.numerics.machine import host

    machine = host()
    lanes = {"float64": machine.lanes(64), "float32": machine.lanes(32)}
    says = (
        f"{machine.cpu}, {machine.register_bits}-bit registers: {lanes['float64']} float64, {lanes['float32']} float32"
    )
    return Check("SIMD", "ok", says, values={"cpu": machine.cpu, "register_bits": machine.register_bits, **lanes})


def check_threads() -> Check:
    """Cores for `threads=`."""
    return Check("threads", "ok", f"{usable_cores()} cores to use", values={"cores": usable_cores()})


@contextmanager
def _empty_cache() -> Iterator[None]:
    """A cache folder of its own, so that code is compiled and not loaded."""
    before = os.environ.get("MINDYN_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINDYN_CACHE_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["MINDYN_CACHE_DIR"]
            if before is not None:
                os.environ["MINDYN_CACHE_DIR"] = before


def check_kernel() -> Check:
    """A PUMA 560's inverse dynamics, compiled and set beside its CasADi function."""
    import numpy as np

    model = mindyn.compile_model(mindyn.load_robot("puma560"))
    motion = np.random.default_rng(0).uniform(-2, 2, (3, 1003, model.robot.joint_count))
    start = perf_counter()
    with _empty_cache():
        found = model.inverse_dynamics(*motion, threads=usable_cores())
    seconds = perf_counter() - start
    expected = np.array(model.casadi("inverse_dynamics")(*(part.T for part in motion))).T
    deviation = float(np.abs(found - expected).max() / np.abs(expected).max())
    good = deviation <= LARGEST_DEVIATION
    says = f"compiled and run in {seconds:.2f} s; deviates from CasADi by {deviation:.1e} of the largest torque"
    mend = "" if good else "kernels give wrong numbers on this CPU: please report it with `mindyn doctor --json`"
    return Check("kernel", "ok" if good else "failed", says, mend, {"deviation": deviation, "seconds": seconds})


def check_cache() -> Check:
    """The folder of compiled kernels."""
    from mindyn.numerics.cache import cache_directory, cache_usage, find_distrust_reason

    folder = cache_directory()
    if folder is None:
        return Check("cache", "missing", "no home folder: kernels are compiled anew", "set MINDYN_CACHE_DIR")
    reason = find_distrust_reason(folder) or ("" if _is_writable(folder) else "not writable")
    objects, size = cache_usage(folder)
    says = f"{folder}: {objects} kernels, {size / 2**20:.1f} MiB" + (f"; not used: {reason}" if reason else "")
    values = {"folder": str(folder), "objects": objects, "bytes": size, "writable": not reason}
    mend = "set MINDYN_CACHE_DIR to a folder that is yours alone" if reason else ""
    return Check("cache", "missing" if reason else "ok", says, mend, values)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def check_compiler() -> Check:
    """A C compiler, for exported C alone: kernels need none."""
    found = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if found is None:
        return Check("C compiler", "missing", "kernels need none; exported C does", f"install {COMPILERS[1]}")
    return Check("C compiler", "ok", found, values={"path": found})


def check_gpu() -> Check:
    """A CUDA device that CuPy sees."""
    from mindyn.errors import MissingExtraError
    from mindyn.kernels.gpu import import_cupy

    try:
        cupy = import_cupy()
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except MissingExtraError as error:
        return Check("GPU", "missing", error.message, _install_command("gpu"))
    except Exception as error:  # CuPy raises CUDARuntimeError, which can be named only where CuPy is
        return Check("GPU", "missing", f"CuPy finds no device: {error}", "look at nvidia-smi")
    return Check("GPU", "ok", name, values={"device": name})


CHECKS: Mapping[str, Callable[[], Check]] = {
    "python": check_python,
    "mindyn": check_package,
    "SIMD": check_processor,
    "threads": check_threads,
    "kernel": check_kernel,
    "cache": check_cache,
    "C compiler": check_compiler,
    "GPU": check_gpu,
}


def check_extras() -> Iterator[Check]:
    """Optional packages: there or not."""
    for extra, (module, package, purpose) in EXTRAS.items():
        there = util.find_spec(module) is not None
        says = f"{module}{_version(package)}: {purpose}" if there else f"no {module}: {purpose}"
        mend = "" if there else _install_command(extra)
        yield Check(f"extra {extra}", "ok" if there else "missing", says, mend, {"module": module})


def _install_command(extra: str) -> str:
    return f"pip install 'mindyn[{extra}]'"


def _version(package: str) -> str:
    """Of a package; the module may come with another one, like a CuPy for another CUDA."""
    try:
        return f" {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return ""


def _print_checks(findings: list[Check]) -> None:
    rows = [("what", "state", "found", "remedy"), *((f.name, f.state, f.message, f.remedy) for f in findings)]
    print_table(rows, styles=["" if one.state == "ok" else STATE_STYLES[one.state] for one in findings])


def _checks_data(findings: list[Check], *, works: bool) -> dict[str, Any]:
    return {
        "works": works,
        "findings": [
            {"name": f.name, "state": f.state, "says": f.message, "remedy": f.remedy, **f.values} for f in findings
        ],
    }
