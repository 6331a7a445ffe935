"""`mindyn doctor`: check what works on this machine and how to install what is missing."""

from __future__ import annotations

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
from mindyn.cli.printing import print_json, print_status, print_table
from mindyn.hints import install_command
from mindyn.numerics.threads import usable_cores


class Extra(NamedTuple):
    """An extra of mindyn: its module, package and purpose."""

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
"""Largest deviation of a kernel from CasADi relative to the peak torque; rounding gives 1e-15."""

COMPILERS = ("cc", "gcc", "clang")
STATE_STYLES = {"missing": "dim", "failed": "red"}
"""Styles of table rows by state."""


@dataclass(frozen=True, slots=True)
class Check:
    """Result of a check.

    state    "ok"; "missing": something optional is not available; "failed": the core does not work
    message  details for people; `values` has the same for programs
    remedy   a command or sentence that helps
    """

    name: str
    state: Literal["ok", "missing", "failed"]
    message: str
    remedy: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def doctor(as_json: Annotated[bool, JSON_OPTION] = False) -> None:
    """Check what works on this machine and what is missing."""
    findings = [_run_check(name, check) for name, check in CHECKS.items()] + list(check_extras())
    works = all(check_result.state != "failed" for check_result in findings)
    if as_json:
        print_json(_checks_data(findings, works=works), indent=2)
    else:
        _print_checks(findings)
    if not works:
        print_status("error: the core of mindyn does not work on this machine\nhint: see the rows marked failed")
        raise typer.Exit(ExitCode.NO)


def _run_check(name: str, check: Callable[[], Check]) -> Check:
    """Run a check; any exception is reported as a failure."""
    try:
        return check()
    except Exception as error:
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        return Check(name, "failed", message, "install mindyn again")


def check_python() -> Check:
    """Return version and path of the interpreter."""
    message = f"{platform.python_version()} at {sys.executable}"
    return Check("python", "ok", message, values={"version": platform.python_version(), "executable": sys.executable})


def check_package() -> Check:
    """Return version and folder of mindyn."""
    place = str(Path(mindyn.__file__).parent)
    values = {"version": mindyn.__version__, "folder": place}
    return Check("mindyn", "ok", f"{mindyn.__version__} at {place}", values=values)


def check_processor() -> Check:
    """Return the CPU that kernels are compiled for and its SIMD lanes."""
    from mindyn.numerics.native import host

    machine = host()
    lanes = {"float64": machine.lanes(64), "float32": machine.lanes(32)}
    message = (
        f"{machine.cpu}, {machine.register_bits}-bit registers: {lanes['float64']} float64, {lanes['float32']} float32"
    )
    return Check("SIMD", "ok", message, values={"cpu": machine.cpu, "register_bits": machine.register_bits, **lanes})


def check_threads() -> Check:
    """Return the number of usable cores."""
    return Check("threads", "ok", f"{usable_cores()} usable cores", values={"cores": usable_cores()})


@contextmanager
def _empty_cache() -> Iterator[None]:
    """Use an empty cache folder, so that kernels are compiled instead of loaded."""
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
    """Compile the inverse dynamics of a PUMA 560 and compare it with its CasADi function."""
    import numpy as np

    model = mindyn.compile_model(mindyn.load_robot("puma560"))
    motion = np.random.default_rng(0).uniform(-2, 2, (3, 1003, model.robot.joint_count))
    start = perf_counter()
    with _empty_cache():
        torque = model.inverse_dynamics(*motion, threads=usable_cores())
    seconds = perf_counter() - start
    expected = np.array(model.casadi("inverse_dynamics")(*(part.T for part in motion))).T
    deviation = float(np.abs(torque - expected).max() / np.abs(expected).max())
    good = deviation <= LARGEST_DEVIATION
    message = f"compiled and run in {seconds:.2f} s; deviation from CasADi {deviation:.1e} relative to the peak torque"
    remedy = (
        ""
        if good
        else "kernels give wrong numbers on this CPU: please report this with the output of `mindyn doctor --json`"
    )
    return Check("kernel", "ok" if good else "failed", message, remedy, {"deviation": deviation, "seconds": seconds})


def check_cache() -> Check:
    """Check the folder of compiled kernels."""
    from mindyn.numerics.cache import cache_directory, cache_usage, find_distrust_reason

    folder = cache_directory()
    if folder is None:
        return Check(
            "cache", "missing", "no home folder: kernels are recompiled in every process", "set MINDYN_CACHE_DIR"
        )
    reason = find_distrust_reason(folder) or ("" if _is_writable(folder) else "not writable")
    objects, size = cache_usage(folder)
    message = f"{folder}: {objects} kernels, {size / 2**20:.1f} MiB" + (f"; not used: {reason}" if reason else "")
    values = {"folder": str(folder), "objects": objects, "bytes": size, "writable": not reason}
    remedy = "set MINDYN_CACHE_DIR to a folder that only you can write" if reason else ""
    return Check("cache", "missing" if reason else "ok", message, remedy, values)


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def check_compiler() -> Check:
    """Look for a C compiler, which only exported C needs."""
    path_of_compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if path_of_compiler is None:
        return Check("C compiler", "missing", "only needed to compile exported C code", f"install {COMPILERS[1]}")
    return Check("C compiler", "ok", path_of_compiler, values={"path": path_of_compiler})


def check_gpu() -> Check:
    """Look for a CUDA device with CuPy."""
    from mindyn.errors import MissingExtraError
    from mindyn.kernels.gpu import import_cupy

    try:
        cupy = import_cupy()
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    except MissingExtraError as error:
        return Check("GPU", "missing", error.message, install_command("gpu"))
    except Exception as error:  # CUDARuntimeError of CuPy cannot be imported without CuPy
        return Check("GPU", "missing", f"CuPy finds no device: {error}", "check the driver with nvidia-smi")
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
    """Check which optional packages are installed."""
    for extra, (module, package, purpose) in EXTRAS.items():
        installed = util.find_spec(module) is not None
        message = f"{module}{_version(package)}: {purpose}" if installed else f"{module} is not installed: {purpose}"
        remedy = "" if installed else install_command(extra)
        yield Check(f"extra {extra}", "ok" if installed else "missing", message, remedy, {"module": module})


def _version(package: str) -> str:
    """Return the version of a package; empty if another package provides the module (CuPy for another CUDA)."""
    try:
        return f" {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return ""


def _print_checks(findings: list[Check]) -> None:
    rows = [("check", "state", "details")]
    rows += [(f.name, f.state, "; ".join(filter(None, (f.message, f.remedy)))) for f in findings]
    print_table(
        rows,
        styles=["" if check_result.state == "ok" else STATE_STYLES[check_result.state] for check_result in findings],
    )


def _checks_data(findings: list[Check], *, works: bool) -> dict[str, Any]:
    return {
        "works": works,
        "findings": [
            {"name": f.name, "state": f.state, "message": f.message, "remedy": f.remedy, **f.values} for f in findings
        ],
    }
