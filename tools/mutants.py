"""Mutants of the code that fits and judges: which single faults the tests do not notice.

    python tools/mutants.py map tests/regression tests/estimators ...   which test runs which line, and how long
    python tools/mutants.py run --count 240 --seed 1                    break one thing at a time, run its tests
    python tools/mutants.py list                                        the survivors, with what was changed

Both write below `build/mutants` and go on where they were stopped. A mutant is caught when one of the tests that run
its line fails, or ends in more than the time that they need otherwise. Tests run in a forked process whose imports are
done, and see the broken module alone in place of its file; no file of the source is changed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
BUILD = ROOT / "build" / "mutants"
LAYERS = ("logs", "regression", "estimators", "feasibility", "identification")
LONGEST_TEST_S = 20.0
"""Tests that take longer are not run on mutants."""
MOST_SECONDS = 8.0
"""Of tests, by their time when all is well, that a mutant meets: the quickest of those that run its line."""

COMPARISONS = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
OPERATORS = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult},
    **{ast.MatMult: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
IDENTITIES = {"abs", "sqrt", "sign", "square", "log", "exp"}
"""Functions of one argument whose call may be lost."""
SWAPPED = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One fault: its file, the number of the place in it, its line, and the code before and after."""

    file: str
    place: int
    line: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """What tells it from others."""
        return f"{self.file}:{self.place}"


def faults_of(node: ast.AST) -> Iterator[ast.AST]:
    """Each thing that the node may become."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            new.ops = [COMPARISONS[type(op)]()]
            yield new
        case ast.BinOp(op=op) if type(op) in OPERATORS and not _of_types(new):
            new.op = OPERATORS[type(op)]()
            yield new
        case ast.BoolOp(op=op):
            new.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield new
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield ast.Constant(3.0 * value if value else 1.0)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[argument], keywords=[]) if (
            name in IDENTITIES
        ):
            yield argument
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED:
            new.func = ast.Name(SWAPPED[name], ast.Load())
            yield new
        case ast.Call(func=ast.Attribute(attr=name)) if name in SWAPPED and isinstance(new.func, ast.Attribute):
            new.func.attr = SWAPPED[name]
            yield new
        case ast.If(test=test):
            new.test = ast.Constant(False)
            yield new
            if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
                new = copy.deepcopy(new)
                new.test = ast.UnaryOp(ast.Not(), test)
                yield new
        case ast.IfExp(body=body, orelse=other):
            yield body
            yield other
        case ast.AugAssign():
            yield ast.Pass()


def _of_types(node: ast.BinOp) -> bool:
    """Whether it is a type, as `int | None`, or a text put together."""
    texts = [one for one in ast.walk(node) if isinstance(one, ast.JoinedStr)]
    return bool(texts) or any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in ast.walk(node))


class _Places(ast.NodeTransformer):
    """Numbers every fault of a module in order; with `wanted`, makes that one."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted, self.seen = wanted, 0
        self.found: list[tuple[int, int, str, str]] = []

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.arg):
            return node  # texts of messages and errors; types
        if isinstance(node, ast.AnnAssign):
            node.value = None if node.value is None else self.visit(node.value)
            return node
        if isinstance(node, ast.ClassDef):  # `frozen=True` of its decorator changes no number
            node.body = [self.visit(one) for one in node.body]
            return node
        if isinstance(node, ast.FunctionDef):
            node.args, node.body = self.visit(node.args), [self.visit(one) for one in node.body]
            return node
        chosen = None
        for fault in faults_of(node):
            line = getattr(node, "lineno", 0)
            self.found.append((self.seen, line, _shown(node), _shown(fault)))
            if self.seen == self.wanted:
                chosen = ast.copy_location(fault, node)
            self.seen += 1
        return self.generic_visit(node) if chosen is None else chosen


def _shown(node: ast.AST) -> str:
    text = ast.unparse(ast.If(node.test, [ast.Pass()], [])) if isinstance(node, ast.If) else ast.unparse(node)
    return " ".join(text.split())[:160]


def mutants_of(path: Path) -> list[Mutant]:
    """Every fault of a file."""
    places = _Places()
    places.visit(ast.parse(path.read_text()))
    return [Mutant(str(path.relative_to(ROOT)), *found) for found in places.found]


def broken(mutant: Mutant) -> str:
    """The source of a module with the fault."""
    tree = _Places(mutant.place).visit(ast.parse((ROOT / mutant.file).read_text()))
    return ast.unparse(ast.fix_missing_locations(tree))


class BrokenModule(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Gives one module another source than that of its file."""

    def __init__(self, name: str, path: Path, source: str) -> None:
        self.name, self.path, self.source = name, path, source

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def] # noqa: ARG002, D102
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002, D102
        return str(self.path)

    def get_data(self, path: str) -> bytes:  # noqa: ARG002, D102
        return self.source.encode()


def map_lines(tests: list[str]) -> None:
    """Run the tests file by file under coverage; which test runs which line, and seconds of each test."""
    BUILD.mkdir(parents=True, exist_ok=True)
    files = [
        path for one in tests for path in ([Path(one)] if one.endswith(".py") else sorted(Path(one).rglob("test_*.py")))
    ]
    for path in files:
        out = BUILD / "lines" / (str(path).replace("/", "-") + ".json")
        if out.exists() and out.stat().st_mtime > path.stat().st_mtime:
            continue
        out.parent.mkdir(exist_ok=True)
        print(path, flush=True)
        begin = time.time()
        command = [sys.executable, __file__, "trace", str(path), str(out)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(
            f"    {time.time() - begin:.0f} s",
            "" if out.exists() else done.stdout[-800:] + done.stderr[-800:],
            flush=True,
        )


def trace(path: str, out: str) -> None:
    """One test file under coverage, test by test."""
    import coverage
    import pytest

    measured = coverage.Coverage(data_file=None, source=[str(SOURCE / "mindyn")], branch=False)

    class Switch:
        seconds: dict[str, float]

        def __init__(self) -> None:
            self.seconds = {}

        def pytest_runtest_logstart(self, nodeid: str) -> None:
            measured.switch_context(nodeid)

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            before = self.seconds.get(report.nodeid, 0.0)
            self.seconds[report.nodeid] = before + report.duration if report.passed else float("inf")

    switch = Switch()
    measured.start()
    code = pytest.main(["-q", "-p", "no:xdist", "-p", "no:cacheprovider", path], plugins=[switch])
    measured.stop()
    data = measured.get_data()
    lines: dict[str, dict[str, list[str]]] = {}
    for file in data.measured_files():
        name = str(Path(file).relative_to(ROOT))
        if name.split("/")[2] in LAYERS:
            lines[name] = {str(k): v for k, v in data.contexts_by_lineno(file).items()}
    seconds = {node: taken for node, taken in switch.seconds.items() if taken < LONGEST_TEST_S}
    if code in (0, 1):
        Path(out).write_text(json.dumps({"seconds": seconds, "lines": lines}))


def mapped() -> tuple[dict[str, float], dict[str, dict[int, set[str]]]]:
    """Seconds of tests, and for each file and line the tests that run it."""
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, set[str]]] = {}
    for path in sorted((BUILD / "lines").glob("*.json")):
        one = json.loads(path.read_text())
        seconds |= one["seconds"]
        for file, told in one["lines"].items():
            for line, tests in told.items():
                lines.setdefault(file, {}).setdefault(int(line), set()).update(set(tests) & set(seconds))
    return seconds, lines


def tests_for(mutant: Mutant, seconds: dict[str, float], lines: dict[str, dict[int, set[str]]]) -> list[str]:
    """The quickest tests that run the line; of lines that run on import, those of the file's other lines."""
    told = lines.get(mutant.file, {})
    tests = {one for one in told.get(mutant.line, set()) if one}
    if not tests:
        tests = set().union(*told.values()) - {""} if told else set()
    chosen, spent = [], 0.0
    for test in sorted(tests, key=lambda one: (seconds[one], one)):
        if chosen and spent + seconds[test] > MOST_SECONDS:
            break
        chosen.append(test)
        spent += seconds[test]
    return chosen


def outcome(mutant: Mutant, tests: list[str], allowed_s: float) -> str:
    """What the tests say in a forked process: "caught", "late" or "survived"."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = 99
        try:
            import pytest

            path = ROOT / mutant.file
            name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            sys.meta_path.insert(0, BrokenModule(name, path, broken(mutant)))
            code = int(pytest.main(["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", *tests]))
        finally:
            os._exit(code)
    end = time.time() + allowed_s
    while time.time() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "survived" if os.waitstatus_to_exitcode(status) == 0 else "caught"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "late"


def run(count: int, seed: int, layers: list[str], again: bool, mapped_only: bool) -> None:
    """Sample mutants of lines that tests run, and write what became of each."""
    for name in (
        "numpy",
        "scipy.linalg",
        "scipy.signal",
        "scipy.optimize",
        "casadi",
        "llvmlite.binding",
        "pytest",
        "polars",
        "clarabel",
    ):
        importlib.import_module(name)
    os.chdir(ROOT)
    record = BUILD / "outcomes.jsonl"
    known = (
        {json.loads(one)["key"]: json.loads(one) for one in record.read_text().splitlines()} if record.exists() else {}
    )
    seconds, lines = mapped()
    files = [path for layer in layers for path in sorted((SOURCE / "mindyn" / layer).glob("*.py"))]
    every = [mutant for path in files for mutant in mutants_of(path)]
    if mapped_only:
        every = [mutant for mutant in every if tests_for(mutant, seconds, lines)]
    chosen = random.Random(seed).sample(every, min(count, len(every)))
    for number, mutant in enumerate(chosen, 1):
        before = known.get(mutant.key)
        if before and before["before"] == mutant.before and (before["outcome"] != "survived" or not again):
            continue
        tests = tests_for(mutant, seconds, lines)
        allowed = 30 + 8 * sum(seconds[test] for test in tests)
        result = outcome(mutant, tests, allowed) if tests else "not run"
        with record.open("a") as file:
            file.write(json.dumps({"key": mutant.key, **asdict(mutant), "outcome": result, "tests": tests[:12]}) + "\n")
        print(
            f"{number}/{len(chosen)} {result:9} {mutant.file}:{mutant.line}  {mutant.before}  ->  {mutant.after}",
            flush=True,
        )


def listed() -> None:
    """Counts and survivors; of a mutant met more than once, the last outcome."""
    last = {one["key"]: one for one in map(json.loads, (BUILD / "outcomes.jsonl").read_text().splitlines())}
    outcomes = [one["outcome"] for one in last.values()]
    caught = sum(one in ("caught", "late") for one in outcomes)
    print(f"{len(outcomes)} mutants, {caught} caught ({caught / max(1, len(outcomes)):.1%})")
    for one in sorted(last.values(), key=lambda one: (one["file"], one["line"])):
        if one["outcome"] not in ("caught", "late"):
            print(f"{one['outcome']:9} {one['file']}:{one['line']}  {one['before']}  ->  {one['after']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("map").add_argument("tests", nargs="+")
    one = commands.add_parser("trace")
    one.add_argument("path")
    one.add_argument("out")
    one = commands.add_parser("run")
    one.add_argument("--count", type=int, default=240)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--layers", nargs="+", default=list(LAYERS))
    one.add_argument("--again", action="store_true", help="meet survivors of earlier runs again")
    one.add_argument("--mapped-only", action="store_true", help="lines that a mapped test runs, no others")
    commands.add_parser("list")
    given = parser.parse_args()
    if given.command == "map":
        map_lines(given.tests)
    elif given.command == "trace":
        trace(given.path, given.out)
    elif given.command == "run":
        run(given.count, given.seed, given.layers, given.again, given.mapped_only)
    else:
        listed()
