"""Docstrings of public names follow numpydoc, and their examples run."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from contracts.public_names import public_names

import mindyn

OPTIONAL = {"ES01", "SA01", "EX01"}
"""Extended summary, See Also and Examples: where they help."""
CREATED_ELSEWHERE = {
    "mindyn.kernels.model.Model": "compile_model documents the parameters",
    "mindyn.regression.rows.Rows": "build_rows creates them",
    "mindyn.identification.estimators.estimator.Estimator": "abstract, without parameters",
}
PUBLIC = {name: value for name, value in public_names().items() if callable(value)}


def has_all_attributes(validate: Any, value: type) -> bool:
    """Whether a result that functions return documents its fields under Attributes."""
    sections = validate.get_doc_object(value)
    listed = {name.strip() for entry in sections["Attributes"] for name in entry.name.split(",")}
    return set(inspect.signature(value).parameters) <= listed


def test_docstrings_of_public_names_are_valid_numpydoc():
    validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed")
    errors = {}
    for name, value in PUBLIC.items():
        allowed = set(OPTIONAL)
        if name in CREATED_ELSEWHERE or (inspect.isclass(value) and has_all_attributes(validate, value)):
            allowed.add("PR01")
        errors[name] = [message for code, message in validate.validate(name)["errors"] if code not in allowed]
    assert {name: messages for name, messages in errors.items() if messages} == {}


def examples() -> list[doctest.DocTest]:
    """Return the examples of public names and of their public methods."""
    cases = []
    for value in PUBLIC.values():
        names = {**vars(inspect.getmodule(value)), "mindyn": mindyn}
        cases += [case for case in doctest.DocTestFinder().find(value, globs=names) if case.examples]
    return cases


@pytest.mark.parametrize("case", examples(), ids=lambda case: case.name)
def test_examples_of_public_names_run(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(case)
    assert runner.failures == 0, case.name


def fields_inside_lines() -> list[str]:
    """List fields of classes that a docstring describes in the middle of a line, where no reader finds them."""
    joined = []
    for path in sorted(Path(mindyn.__file__).parent.rglob("*.py")):
        classes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))
        for node in classes:
            fields = [f.target.id for f in node.body if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)]
            inside = rf"\w[^,]* ({'|'.join(fields)}) {{2,}}\S"
            lines = (ast.get_docstring(node) or "").splitlines() if fields else []
            joined += [f"{path.name}: {line.strip()}" for line in lines if re.search(inside, line)]
    return joined


def test_each_field_begins_a_line():
    assert fields_inside_lines() == []
