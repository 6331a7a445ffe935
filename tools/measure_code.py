"""Lines, files, constants, repeated names and modules with one importer of a source tree.

python tools/measure_code.py src/mindyn                      one row for every layer
python tools/measure_code.py src/mindyn --one-importer       modules with one importer
python tools/measure_code.py src/mindyn --repeated           constants and classes with the same name in several modules
python tools/measure_code.py src/mindyn --code               lines of code of every layer
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path


def constants(tree: ast.Module) -> list[str]:
    """Return the names in capitals that a module assigns."""
    result = []
    for node in tree.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        result += [target.id for target in targets if isinstance(target, ast.Name) and target.id.strip("_").isupper()]
    return result


def code_lines(text: str) -> int:
    """Count lines without blank lines, comments, docstrings and the texts that describe a constant."""
    tree = ast.parse(text)
    described = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in silent]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - described)


def print_code_lines(texts: dict[Path, str], source: Path) -> None:
    """Print the code lines of every layer."""
    counts = {path: code_lines(text) for path, text in texts.items()}
    layers: dict[str, int] = defaultdict(int)
    for path, count in counts.items():
        layers[path.relative_to(source).parts[0] if path.parent != source else "(package)"] += count
    for layer, count in [*layers.items(), ("all", sum(counts.values()))]:
        print(f"{layer:18}{count:8}")


def importers(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return, for each module, the modules that import it (also by a string); package `__init__` files do not count."""
    result: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for node in [] if name in packages(trees) else ast.walk(tree):
            named: set[str] = set()
            if isinstance(node, ast.ImportFrom):
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & set(trees)
                named = inner or {node.module or ""}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = {node.value}
            for item in named & set(trees):
                result[item].add(name)
    return result


def packages(trees: dict[str, ast.Module]) -> set[str]:
    """Return the modules that contain other modules."""
    return {name.rpartition(".")[0] for name in trees} & set(trees)


def with_public_names(trees: dict[str, ast.Module]) -> set[str]:
    """Return the modules with public names."""
    nodes = [node for name in packages(trees) for node in ast.walk(trees[name])]
    return {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def main() -> None:
    """Print the measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, nargs="?", default=Path("src/mindyn"))
    parser.add_argument("--one-importer", action="store_true")
    parser.add_argument("--repeated", action="store_true")
    parser.add_argument("--code", action="store_true")
    given = parser.parse_args()
    paths = sorted([*given.source.rglob("*.py"), *given.source.rglob("*.pyi")])
    texts = {path: path.read_text() for path in paths}
    if given.code:
        print_code_lines(texts, given.source)
        return
    names = {path: ".".join(("mindyn", *path.relative_to(given.source).with_suffix("").parts)) for path in paths}
    trees = {names[path].removesuffix(".__init__"): ast.parse(text) for path, text in texts.items()}
    by = importers(trees)
    public = with_public_names(trees) | packages(trees) | {"mindyn.kernels.torch", "mindyn.kernels.jax"}
    alone = {name for name, who in by.items() if len(who) == 1 and name not in public and not name.endswith("main")}
    if given.one_importer:
        for name in sorted(alone):
            (who,) = by[name]
            print(f"{name:48} {len(texts[_path(names, name)].splitlines()):4} lines   {who}")
        return
    if given.repeated:
        for what, result in (("constant", repeated_constants(trees)), ("class", repeated_classes(trees))):
            for name, modules in sorted(result.items()):
                print(f"{what:9} {name:20} {', '.join(modules)}")
        return
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for path, text in texts.items():
        name = names[path].removesuffix(".__init__")
        layer = path.relative_to(given.source).parts[0] if path.parent != given.source else "(package)"
        values = (len(text.splitlines()), 1, len(constants(trees[name])), int(name in alone))
        for total in (rows[layer], rows["all"]):
            total[:] = [a + b for a, b in zip(total, values, strict=True)]
    print(f"{'layer':18}{'lines':>8}{'files':>8}{'constants':>11}{'one importer':>14}")
    for layer, (lines, files, count, single) in rows.items():
        if layer != "all":
            print(f"{layer:18}{lines:8}{files:8}{count:11}{single:14}")
    lines, files, count, single = rows["all"]
    print(f"{'all':18}{lines:8}{files:8}{count:11}{single:14}")


def _path(names: dict[Path, str], module: str) -> Path:
    return next(path for path, name in names.items() if name.removesuffix(".__init__") == module)


def repeated_constants(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Return constants of the same name in several modules."""
    result: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees.items():
        for name in constants(tree):
            result[name.strip("_")].append(module.removeprefix("mindyn."))
    return {name: modules for name, modules in result.items() if len(modules) > 1}


def repeated_classes(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Return classes of the same name in several modules."""
    result: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                result[node.name.strip("_")].append(module.removeprefix("mindyn."))
    return {name: modules for name, modules in result.items() if len(modules) > 1}


if __name__ == "__main__":
    main()
