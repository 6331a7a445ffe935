"""A model's equations as files of C and C++: their names, what the headers define and say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from mindyn.files import write_together
from mindyn.kernels.c_source import c_source
from mindyn.kernels.cpp_source import cpp_source
from mindyn.kernels.source_text import INCLUDED, SI_UNITS, Described, Facts, file_identifier

if TYPE_CHECKING:
    from mindyn.kernels.model import Exported, Model


@dataclass(frozen=True, slots=True)
class Code:
    """The texts of a C source, its header, and the C++ header over it."""

    source: str
    header: str
    wrapper: str


def code_of(
    model: Model,
    functions: Exported,
    stem: str,
    prefix: str | None = None,
    facts: Facts = (),
    further: Sequence[Described] = (),
) -> Code:
    """The texts of `stem`.c, .h and .hpp, with `further` functions; prefix and facts as of `Model.write_c`."""
    listed = [*model.described(functions), *further]
    begin = f"{file_identifier(stem).strip('_')}_" if prefix is None else prefix
    stated: Facts = ("JOINT_COUNT", len(model.robot.primary_names)), ("MINDYN_VERSION", version("mindyn")), *facts
    c = c_source(listed, stem, model.title(), (SI_UNITS, INCLUDED[model.drives]), stated, begin)
    return Code(c.source, c.header, cpp_source(listed, stem, model.title(), stated, begin))


def write_code(
    model: Model, path: str | Path, functions: Exported, prefix: str | None, facts: Facts
) -> tuple[Path, ...]:
    """`Model.write_c`: the .c and .h of a path, and the .hpp of one that ends so; all of them or none."""
    given = Path(path)
    cpp = given.suffix == ".hpp"
    source = given.with_suffix(".c") if cpp else given if given.suffix == ".c" else Path(f"{path}.c")
    code = code_of(model, functions, source.stem, prefix, facts)
    files: dict[str | Path, str | bytes] = {source: code.source, source.with_suffix(".h"): code.header}
    if cpp:
        files[given] = code.wrapper
    write_together(files)
    return tuple(map(Path, files))
