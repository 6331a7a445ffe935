"""Errors have a code and a subject, and tests expect them by these, never by their sentences."""

from __future__ import annotations

import ast
import pickle
import re
from importlib import import_module
from pathlib import Path

from mindyn.foundation.errors import MindynError, pluralise
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.foundation.hints import Command

ROOT = Path(__file__).parents[2]
GENERAL = {"MindynError", "InputError", "LogError", "RobotFileError"}
"""Classes whose code says what is wrong; that of the others follows from the class."""
WITHOUT_SUBJECT = {"InfeasibleProgramError"}
"""Errors that no user sees: the fit that solves the program raises its own."""
UNCODED = {"tests/raising.py": "`raises` itself"}
"""Files that may expect errors of mindyn without a code, and why."""


def calls(folder: str):
    """Yield the path and every call of each file."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield path.relative_to(ROOT).as_posix(), node


def error_classes(kind: type[MindynError] = MindynError) -> set[str]:
    """Return the names of all errors of mindyn."""
    return {kind.__name__}.union(*(error_classes(below) for below in kind.__subclasses__()))


def error_names() -> set[str]:
    """Return the names of all errors, after importing the modules that define one."""
    for path in (ROOT / "src" / "mindyn").rglob("*.py"):
        if re.search(r"^class \w+Error\(", path.read_text(), re.MULTILINE):
            import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
    return error_classes()


def test_every_error_has_a_code_and_a_subject():
    names, incomplete = error_names(), []
    for path, call in calls("src"):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name in names - WITHOUT_SUBJECT:
            given = {keyword.arg for keyword in call.keywords}
            needed = {"subject"} | ({"code"} if name in GENERAL else set())
            if None not in given and not needed <= given:
                incomplete.append((path, call.lineno, name, needed - given))
    assert incomplete == []


def test_tests_expect_errors_by_code():
    names = error_names() | {"Exception"}
    uncoded = [
        (path, call.lineno)
        for path, call in calls("tests")
        if ast.unparse(call.func) == "pytest.raises"
        and path not in UNCODED
        and names & {ast.unparse(part).rpartition(".")[2] for part in ast.walk(call.args[0])}
    ]
    assert uncoded == []


def test_numbers_have_a_singular():
    assert [pluralise(count, "mesh file") for count in (0, 1, 2)] == ["0 mesh files", "1 mesh file", "2 mesh files"]


def test_messages_contain_no_control_characters():
    """Names of joints and files may contain them; a terminal would obey them."""
    hostile = "a\x1b[2J\x00\x9b\u202eb\nc"
    error = MindynError(hostile, hint=hostile, command=Command("log", hostile, "ROBOT"), subject=hostile)
    error.fill_command(ROBOT="arm\x1b.urdf")
    finding = Finding(Kind.MESH, Severity.WARNING, hostile, hostile, (hostile,), details=(hostile,))
    restored = pickle.loads(pickle.dumps(error))
    for text in (str(error), *error.args, error.hint, str(restored), str(finding), *finding.details):
        assert text.replace("\n", "").isprintable(), repr(text)
        assert "\\x1b" in text
    assert "arm\\x1b.urdf" in error.hint
    assert error.subject == hostile
    assert finding.joints == (hostile,)
    assert Finding.from_dict(finding.to_dict()) == finding
