"""Hints propose commands that exist: complete ones run, others parse, and packages are named as they install."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli.program import mindyn_program
from raising import raises
from tiers import IS_FULL

from mindyn.cli.main import COMMANDS, load_command
from mindyn.foundation import hints
from mindyn.foundation.errors import Code, InputError, MindynError
from mindyn.foundation.hints import Command, install_command

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mindyn"
TREES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def list_proposed_commands():
    """The words of every command that the program proposes; None for a value that is known only when it runs."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if named and node.func.id in ("Command", "print_next_command") and path != "cli/next_step.py":
                words = [word for word in node.args if not isinstance(word, ast.Starred)]
                if words and isinstance(words[0], ast.Constant):
                    yield path, tuple(w.value if isinstance(w, ast.Constant) else None for w in words)


PROPOSED = sorted(set(list_proposed_commands()), key=str)


def test_commands_are_found():
    assert len(PROPOSED) > 20
    assert {"identify", "export", "log", "check"} <= {words[0] for _, words in PROPOSED}


def is_complete(words):
    """Words in capitals stand for what the user knows."""
    return not any(word.isupper() and word.isalpha() for word in words)


LONG = ("compare",)
"""Complete commands that take many seconds: `make full` runs them. Other tests run them for smaller robots."""


@pytest.mark.parametrize(("path", "words"), PROPOSED, ids=lambda value: str(value))
def test_every_proposed_command_parses_and_complete_ones_run(path, words):
    if None not in words and is_complete(words) and (IS_FULL or words[0] not in LONG):
        assert mindyn_program(*words).code == 0
        return
    command = load_command(words[0])
    context = command.context_class(command)
    given, _, order = command.make_parser(context).parse_args(["X" if word is None else word for word in words[1:]])
    required = [p for p in command.params if p.param_type_name == "argument" and p.required]
    starred = path in ("cli/compare_command.py", "report/verdict.py")  # further words follow when it runs
    assert starred or all(given.get(parameter.name) for parameter in required), order


def test_hints_hold_no_command_as_plain_text():
    """A command in a sentence of its own is a `Command`, so that the tests above see it."""
    named = re.compile(rf"mindyn (?:{'|'.join(COMMANDS)}) [A-Z{{.]")
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg in ("hint", "remedy"):
                texts = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
                assert not named.search(" ".join(map(str, texts))), (path, node.value.lineno)


def test_a_command_is_written_as_a_shell_takes_it():
    command = Command("log", Path("run 1.csv"), "ROBOT")
    assert str(command) == "mindyn log 'run 1.csv' ROBOT"
    error = MindynError("wrong", hint="plan first", command=command)
    assert error.hint == "plan first: mindyn log 'run 1.csv' ROBOT"
    assert error.to_dict()["command"] == ["mindyn", "log", "run 1.csv", "ROBOT"]


def test_names_that_are_known_take_the_place_of_words_in_capitals(tmp_path):
    """The robot and the log of the command, and the folder that does not exist."""
    log = tmp_path / "run 1.csv"
    log.write_text("t,q1,q2\n0,0,0\n0.1,0,0\n")
    (tmp_path / "run 1.csv.toml").write_text("draft = true\n")
    for words, proposed in (
        (("identify", "planar2", log, "--json"), ["mindyn", "log", str(log), "planar2", "--confirm"]),
        (("check", "none", "--json"), ["mindyn", "identify", "ROBOT", "LOG", "--out", "none"]),
    ):
        error = json.loads(mindyn_program(*words).out)["error"]
        assert error["command"] == proposed
        assert error["hint"].endswith(str(Command(*proposed[1:])))


def test_extras_are_installed_as_the_package_is_published(monkeypatch):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in extras.items():
        assert all(package in install_command(extra) for package in packages)
    assert "in the folder of the source" in install_command("nothing")
    monkeypatch.setattr(hints, "PUBLISHED", True)
    assert install_command("ros") == "pip install 'mindyn[ros]'"


def test_documentation_names_the_package_only_once_it_is_published():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    pattern = r"(pip\s+install\s+(-U\s+)?|uvx\s+|pipx\s+run\s+)'?mindyn"
    named = [page.name for page in pages if re.search(pattern, page.read_text())]
    assert hints.PUBLISHED or not named
    assert not hints.PUBLISHED or "README.md" in named, "publish: begin its Install section with pip install mindyn"


@pytest.mark.parametrize("published", [False, True])
def test_the_first_page_names_the_package_once_it_is_published(published, monkeypatch):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    monkeypatch.setattr(hints, "PUBLISHED", published)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    text = hooks.on_page_markdown((ROOT / "docs" / "index.md").read_text(), page)
    assert ("uvx mindyn demo" in text) == ("pip install mindyn && mindyn demo" in text) == published
    assert "make demo" in text


@pytest.mark.parametrize("words", [("robots", "puma650"), ("identify", "puma560", "nothing.csv"), ("check", "nothing")])
def test_errors_under_json_are_json(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = mindyn_program(*words, "--json")
    assert done.code == 1
    error = json.loads(done.out)["error"]
    assert {"message", "hint", "command", "code", "subject"} == set(error)
    assert error["code"] in set(Code)
    assert error["message"] in done.err.replace("\n", " ")
    assert mindyn_program(*words).out == ""


def test_errors_keep_their_command_in_another_process():
    import pickle

    with raises(InputError, code=Code.MISSING_FILE, subject="x"):
        raise pickle.loads(
            pickle.dumps(InputError("no", command=Command("robots"), code=Code.MISSING_FILE, subject="x"))
        )
