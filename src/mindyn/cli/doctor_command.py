"""`mindyn doctor`: check what works on this machine and how to install what is missing."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata, util
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, Literal, NamedTuple

import typer

import mindyn
from mindyn.cli.arguments import JSON_OPTION
from mindyn.cli.exit_codes import ExitCode
from mindyn.cli.printing import print_json, print_status, print_table
from mindyn.foundation.hints import install_command


class Extra(NamedTuple):
    """An extra of mindyn: its module, package and purpose."""

    module: str
    package: str
    purpose: str


EXTRAS: Mapping[str, Extra] = {
    "mjcf": Extra("mujoco", "mujoco", "read MJCF robots"),
    "hdf5": Extra("h5py", "h5py", "read HDF5 logs"),
    "ros": Extra("zstandard", "zstandard", "read MCAP and rosbag2 logs"),
    "gpu": Extra("cupy", "cupy-cuda12x", "kernels on a GPU"),
    "torch": Extra("torch", "torch", "mindyn.kernels.torch"),
    "jax": Extra("jax", "jax", "mindyn.kernels.jax"),
    "pinocchio": Extra("pinocchio", "pin", "mindyn.to_pinocchio"),
    "collision": Extra("coal", "coal", "check more pairs of links in mindyn excite"),
}

LARGEST_DEVIATION = 1e-12
"""Largest deviation of a kernel from CasADi relative to the peak torque; rounding gives 1e-15."""

STATE_STYLES = {"ok": "", "missing": "dim", "failed": "red"}
"""Styles of table rows by state."""


@dataclass(frozen=True, slots=True)
class Check:
    """Result of a check.

    message  details for people; `values` has the same for programs
    remedy   a command or sentence that helps
    state    "ok"; "missing": something optional is not available; "failed": the core does not work
    """

    message: str
    values: Mapping[str, Any] = field(default_factory=dict)
    remedy: str = ""
    state: Literal["ok", "missing", "failed"] = "ok"


def doctor(as_json: Annotated[bool, JSON_OPTION] = False) -> None:
    """Check what works on this machine and what is missing."""
    checks = {name: _run_check(check) for name, check in CHECKS.items()}
    works = all(check.state != "failed" for check in checks.values())
    if as_json:
        findings = [
            {"name": name, "state": check.state, "message": check.message, "remedy": check.remedy, **check.values}
            for name, check in checks.items()
        ]
        print_json({"works": works, "findings": findings}, indent=2)
    else:
        rows = [
            (name, check.state, "; ".join(filter(None, (check.message, check.remedy))))
            for name, check in checks.items()
        ]
        styles = [STATE_STYLES[check.state] for check in checks.values()]
        print_table([("check", "state", "details"), *rows], styles=styles)
    if not works:
        print_status("error: the core of mindyn does not work on this machine\nhint: see the rows marked failed")
        raise typer.Exit(ExitCode.NO)


def _run_check(check: Callable[[], Check]) -> Check:
    """Run a check; any exception is reported as a failure."""
    try:
        return check()
    except Exception as error:
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        return Check(message, remedy="install mindyn again", state="failed")


def check_package() -> Check:
    """Return versions and folders of mindyn and of the interpreter."""
    values = {"version": mindyn.__version__, "folder": str(Path(mindyn.__file__).parent)}
    python = {"python": platform.python_version(), "executable": sys.executable}
    return Check(f"{' at '.join(values.values())}; Python {' at '.join(python.values())}", {**values, **python})


def check_processor() -> Check:
    """Return the CPU that kernels are compiled for, its usable cores and its SIMD lanes."""
    from mindyn.foundation.processes.cores import usable_cores
    from mindyn.kernels.numerics.machine import host

    machine = host()
    lanes = {f"float{bits}": machine.lanes(bits) for bits in (64, 32)}
    listed = ", ".join(f"{count} {name}" for name, count in lanes.items())
    message = f"{machine.cpu}, {usable_cores()} usable cores, {machine.register_bits}-bit registers: {listed}"
    return Check(
        message, {"cpu": machine.cpu, "cores": usable_cores(), "register_bits": machine.register_bits, **lanes}
    )


def check_kernel() -> Check:
    """Compile the inverse dynamics of a PUMA 560 in an empty cache, and compare it with its CasADi function."""
    from unittest.mock import patch

    import numpy as np

    from mindyn.foundation.processes.cores import usable_cores

    model = mindyn.compile_model(mindyn.load_robot("puma560"))
    motion = np.random.default_rng(0).uniform(-2, 2, (3, 1003, model.robot.joint_count))
    start = perf_counter()
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, MINDYN_CACHE_DIR=folder):
        torque = model.inverse_dynamics(*motion, threads=usable_cores())
    seconds = perf_counter() - start
    expected = np.array(model.casadi("inverse_dynamics")(*(part.T for part in motion))).T
    deviation = float(np.abs(torque - expected).max() / np.abs(expected).max())
    message = f"compiled and run in {seconds:.2f} s; deviation from CasADi {deviation:.1e} relative to the peak torque"
    values = {"deviation": deviation, "seconds": seconds}
    if deviation <= LARGEST_DEVIATION:
        return Check(message, values)
    remedy = "kernels give wrong numbers on this CPU: please report this with the output of `mindyn doctor --json`"
    return Check(message, values, remedy, "failed")


def check_cache() -> Check:
    """Check the folder of compiled kernels."""
    from mindyn.kernels.numerics.cache import cache_directory, cache_usage, find_distrust_reason

    folder = cache_directory()
    if folder is None:
        message = "no home folder: kernels are recompiled in every process"
        return Check(message, remedy="set MINDYN_CACHE_DIR", state="missing")
    reason = find_distrust_reason(folder) or ("" if _is_writable(folder) else "not writable")
    objects, size = cache_usage(folder)
    message = f"{folder}: {objects} kernels, {size / 2**20:.1f} MiB"
    values = {"folder": str(folder), "objects": objects, "bytes": size, "writable": not reason}
    if not reason:
        return Check(message, values)
    remedy = "set MINDYN_CACHE_DIR to a folder that only you can write"
    return Check(f"{message}; not used: {reason}", values, remedy, "missing")


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def check_gpu() -> Check:
    """Look for a CUDA device with CuPy."""
    from mindyn.foundation.errors import MissingExtraError
    from mindyn.kernels.gpu import import_cupy

    try:
        name = import_cupy().cuda.runtime.getDeviceProperties(0)["name"].decode()
    except MissingExtraError as error:
        return Check(error.message, remedy=install_command("gpu"), state="missing")
    except Exception as error:  # CUDARuntimeError of CuPy cannot be imported without CuPy
        message = f"CuPy finds no device: {error}"
        return Check(message, remedy="check the driver with nvidia-smi", state="missing")
    return Check(name, {"device": name})


def check_extra(name: str) -> Check:
    """Check whether the package of an extra is installed."""
    module, package, purpose = EXTRAS[name]
    if util.find_spec(module) is None:
        message = f"{module} is not installed: {purpose}"
        return Check(message, {"module": module}, install_command(name), "missing")
    try:
        module_and_version = f"{module} {metadata.version(package)}"
    except metadata.PackageNotFoundError:  # another package provides the module: CuPy for another CUDA
        module_and_version = module
    return Check(f"{module_and_version}: {purpose}", {"module": module})


CHECKS: Mapping[str, Callable[[], Check]] = {
    "mindyn": check_package,
    "processor": check_processor,
    "kernel": check_kernel,
    "cache": check_cache,
    "GPU": check_gpu,
    **{f"extra {name}": partial(check_extra, name) for name in EXTRAS},
}
