"""Notebooks are small, hold no outputs, and run from the first cell to the last."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[dict]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


def test_there_are_notebooks():
    assert len(NOTEBOOKS) >= 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_well_formed_and_without_outputs(path):
    book = json.loads(path.read_text())
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids)
    assert {cell["cell_type"] for cell in book["cells"]} == {"markdown", "code"}
    assert book["cells"][0]["source"][0].startswith("# ")
    for cell in cells(path, "code"):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
    assert sum(len(cell["source"]) for cell in cells(path, "code")) <= 80


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path, tmp_path, monkeypatch, capsys):
    if "MINDYN_REAL_DATA" in path.read_text() and "MINDYN_REAL_DATA" not in os.environ:
        pytest.skip("MINDYN_REAL_DATA is not set")
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path, "code"), 1):
        exec(compile("".join(cell["source"]), f"{path.name}, code cell {number}", "exec"), space)
    assert capsys.readouterr().out
