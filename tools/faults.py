"""Create single faults (mutants) of a source file, and load modules that contain one; used by `tools/mutants.py`."""

from __future__ import annotations

import ast
import copy
import gc
import hashlib
import importlib.abc
import importlib.util
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

ROOT = Path(__file__).parents[1]

COMPARISONS = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
OPERATORS = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult},
    **{ast.MatMult: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
IDENTITIES = {"abs", "sqrt", "sign", "square", "log", "exp"}
"""Functions of one argument whose call a mutant removes."""
SWAPPED = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "any": "all", "all": "any"}
GPU_FILES = ("device.py",)
"""Files whose code runs only on a GPU."""
SIZE_CONSTANTS = (
    "CACHED_ROBOTS",
    "BLOCK_ROWS",
    "FACTORED_ROWS",
    "PRODUCT_ROWS",
    "FILTERED_ROWS",
    "CHUNK",
    "CHUNK_ROWS",
    "BLOCK_BYTES",
    "WAITING_ROWS",
)
"""Sizes of blocks and caches: results do not depend on them."""
LARGEST_ROUNDING = 1e-9
"""Smaller numbers only avoid division by zero or separate rounding from data; tripling them changes no result."""


@dataclass(frozen=True)
class Mutant:
    """A fault: file, number in the file, line, whether it is in a function, and the code before and after.

    nth       number of faults with the same text that come before it in the file
    excluded  why no test of results can detect it, so that it is not sampled; empty otherwise
    """

    file: str
    place: int
    line: int
    in_function: bool
    before: str
    after: str
    nth: int
    excluded: str = ""

    @property
    def key(self) -> str:
        """Return a name that does not change if other code of the file changes."""
        return f"{self.file}: {self.before} -> {self.after} #{self.nth}"


def generate_faults(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the faulty variants of a node."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            new.ops = [COMPARISONS[type(op)]()]
            yield new
        case ast.BinOp(op=op) if type(op) in OPERATORS and not _is_type_or_text(new):
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


def _is_type_or_text(node: ast.BinOp) -> bool:
    """Return whether the node is a type such as `int | None`, or concatenates texts."""
    texts = [item for item in ast.walk(node) if isinstance(item, ast.JoinedStr)]
    return bool(texts) or any(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in ast.walk(node))


class _Places(ast.NodeTransformer):
    """Number the faults of a module in order; with `wanted`, apply that fault."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted, self.seen, self.depth, self.assigned = wanted, 0, 0, ""
        self.found: list[tuple[int, int, bool, str, str, str]] = []

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.arg):
            return node  # texts of messages and errors; types
        if isinstance(node, ast.keyword) and node.arg in ("strict", "optimize"):
            return node  # neither strict of zip nor optimize of einsum changes a result
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node  # never runs
        if isinstance(node, ast.AnnAssign):
            self.assigned = node.target.id if isinstance(node.target, ast.Name) and not self.depth else ""
            node.value = None if node.value is None else self.visit(node.value)
            self.assigned = ""
            return node
        if isinstance(node, ast.ClassDef):  # `frozen=True` of its decorator changes no number
            node.body = [self.visit(item) for item in node.body]
            return node
        if isinstance(node, ast.FunctionDef):
            node.args = self.visit(node.args)
            self.depth += 1
            node.body = [self.visit(item) for item in node.body]
            self.depth -= 1
            return node
        chosen = None
        for fault in generate_faults(node):
            line = getattr(node, "lineno", 0)
            if self.wanted < 0:
                self.found.append(
                    (self.seen, line, self.depth > 0, _unparse(node), _unparse(fault), self._find_exclusion(node))
                )
            elif self.seen == self.wanted:
                chosen = ast.copy_location(fault, node)
            self.seen += 1
        return self.generic_visit(node) if chosen is None else chosen

    def _find_exclusion(self, node: ast.AST) -> str:
        if self.assigned in SIZE_CONSTANTS:
            return "block or cache size"
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < abs(node.value) < LARGEST_ROUNDING:
            return "rounding threshold"
        return ""


def _unparse(node: ast.AST) -> str:
    text = ast.unparse(ast.If(node.test, [ast.Pass()], [])) if isinstance(node, ast.If) else ast.unparse(node)
    return " ".join(text.split())[:160]


def mutants_of(path: Path) -> list[Mutant]:
    """Return all faults of a file."""
    places = _Places()
    places.visit(ast.parse(path.read_text()))
    same: Counter[tuple[str, str]] = Counter()
    created = []
    for *where, before, after, excluded in places.found:
        reason = "code that runs only on a GPU" if path.name in GPU_FILES else excluded
        created.append(Mutant(str(path.relative_to(ROOT)), *where, before, after, same[before, after], reason))
        same[before, after] += 1
    return created


def sample_mutants(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return `count` mutants that are not excluded, selected by a hash of the seed and of their own text."""

    def rank(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    return sorted((mutant for mutant in mutants if not mutant.excluded), key=rank)[:count]


def compile_mutant(mutant: Mutant) -> CodeType:
    """Compile the module with the fault; line numbers are those of its file."""
    tree = _Places(mutant.place).visit(ast.parse((ROOT / mutant.file).read_text()))
    assert isinstance(tree, ast.Module)
    return compile(ast.fix_missing_locations(tree), str(ROOT / mutant.file), "exec")


class MutantModule(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Replace the code of one module when it is imported."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self.name, self.path, self.code = name, path, code

    def find_spec(self, fullname, path=None, target=None):  # type: ignore[no-untyped-def] # noqa: ARG002, D102
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_source(self, fullname: str) -> str:  # noqa: ARG002, D102
        return self.path.read_text()

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002, D102
        return self.code


def functions_by_file() -> dict[str, list[FunctionType]]:
    """Return all functions of this process by source file."""
    result: dict[str, list[FunctionType]] = {}
    for item in gc.get_objects():
        if type(item) is FunctionType:
            result.setdefault(item.__code__.co_filename, []).append(item)
    return result


def replace_code(functions: Iterable[FunctionType], code: CodeType) -> None:
    """Replace the code of the functions of an imported module by that of another compilation of its file."""
    new = {}
    waiting = [code]
    while waiting:
        item = waiting.pop()
        new[item.co_qualname, item.co_firstlineno] = item
        waiting += [inner for inner in item.co_consts if isinstance(inner, CodeType)]
    for function in functions:
        old = function.__code__
        if (old.co_qualname, old.co_firstlineno) in new:
            function.__code__ = new[old.co_qualname, old.co_firstlineno]
