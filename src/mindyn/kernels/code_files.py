"""Write a model's equations as C and C++ files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from mindyn.files import write_files_atomically
from mindyn.kernels.c_source import c_source
from mindyn.kernels.cpp_source import cpp_source
from mindyn.kernels.source_text import DRIVES_COMMENT, SI_UNITS, Facts, SourceFunction, file_identifier

if TYPE_CHECKING:
    from mindyn.kernels.model import FunctionSelection, Model


@dataclass(frozen=True, slots=True)
class GeneratedCode:
    """Contents of a C source, its header, and the C++ header over it."""

    source: str
    header: str
    wrapper: str


def generate_code(
    model: Model,
    functions: FunctionSelection,
    stem: str,
    prefix: str | None = None,
    facts: Facts = (),
    further: Sequence[SourceFunction] = (),
) -> GeneratedCode:
    """Return the contents of `stem`.c, .h and .hpp with `further` functions; see `Model.write_c`."""
    listed = [*model.describe_functions(functions), *further]
    begin = f"{file_identifier(stem).strip('_')}_" if prefix is None else prefix
    stated: Facts = ("JOINT_COUNT", len(model.robot.primary_names)), ("MINDYN_VERSION", version("mindyn")), *facts
    c = c_source(listed, stem, model.title(), (SI_UNITS, DRIVES_COMMENT[model.drives]), stated, begin)
    return GeneratedCode(c.source, c.header, cpp_source(listed, stem, model.title(), stated, begin))


def write_code(
    model: Model, path: str | Path, functions: FunctionSelection, prefix: str | None, facts: Facts
) -> tuple[Path, ...]:
    """Write the .c and .h of a path, and the .hpp if the path ends so; write all of them or none."""
    given = Path(path)
    cpp = given.suffix == ".hpp"
    source = given.with_suffix(".c") if cpp else given if given.suffix == ".c" else Path(f"{path}.c")
    code = generate_code(model, functions, source.stem, prefix, facts)
    files: dict[str | Path, str | bytes] = {source: code.source, source.with_suffix(".h"): code.header}
    if cpp:
        files[given] = code.wrapper
    write_files_atomically(files)
    return tuple(map(Path, files))
