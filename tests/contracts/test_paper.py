"""The paper: its figures and numbers are those of the records, its commands and references exist, and it builds."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "paper" / "paper.md").read_text()
spec = importlib.util.spec_from_file_location("build_paper", ROOT / "paper" / "build.py")
paper = sys.modules["build_paper"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(paper)


@pytest.mark.parametrize("name", ["errors.svg", "speed.svg"])
def test_figures_are_drawn_from_the_records(name):
    assert (ROOT / "paper" / name).read_text() == paper.figures()[name]
    assert f"]({name})" in TEXT


def record_row(record: str, *start: str) -> list[str]:
    return next(row for row in paper.rows_of_record(record) if row[: len(start)] == list(start))[len(start) :]


def test_numbers_are_those_of_the_records():
    text = " ".join(TEXT.split())
    ours, theirs = record_row("kernels", "puma560", "inverse dynamics")[:2]
    assert f"takes {ours} a sample on one core" in text
    assert f"takes {theirs} (" in text
    ours, theirs = record_row("calls", "puma560", "exported C")[1:3]
    assert f"the exported C code takes {ours}" in text
    assert f"from Pinocchio takes {theirs}" in text
    _, seconds, memory = record_row("streaming", "as written by default")[:3]
    assert f"need {memory} of memory and {seconds} (" in text
    errors = paper.leaderboard_errors()
    methods = ("identify", "consistent", "mujoco.sysid")
    ours, consistent, sysid = (f"{errors[name]['KUKA LWR4+, transfer']:.2f} %" for name in methods)
    assert ours == consistent
    assert (
        f"which is physically consistent, predicts another motion with {ours} error and `mujoco.sysid` with {sysid}"
        in text
    )
    words = {6: "six", 7: "seven", 8: "eight"}
    assert f"the rules and {words[len(errors) - len(paper.METHODS)]} further methods" in text
    match = re.search(
        r"(0\.\d+ to 0\.\d+) times the position error of `mujoco.sysid`, in (\d+ to \d+) times less", text
    )
    assert match is not None
    record = " ".join((ROOT / "benchmarks" / "records" / "mujoco_sysid.md").read_text().split())
    assert f"is {match[1]} times that of mujoco.sysid, in {match[2]} times less" in record
    covered = re.search(r"(\d+\.\d) % of (\d+) intervals", text)
    page = " ".join((ROOT / "docs" / "evidence" / "identify.md").read_text().split())
    assert f"`tests/honesty/coverage.py --first 500`): {covered[1]} % of {covered[2]} intervals" in page


def test_commands_and_references_exist():
    for module in re.findall(r"python -m (benchmarks\.[\w.]+)", TEXT):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
    for file in re.findall(r"`((?:tests|docs)/[\w/.-]+)", TEXT):
        assert (ROOT / file).is_file()
    cited = set(re.findall(r"@(\w+)", TEXT))
    listed = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / "paper.bib").read_text(), re.MULTILINE)
    assert cited == set(listed)
    assert len(listed) == len(set(listed))


def test_it_builds(tmp_path):
    if shutil.which("pandoc") is None:
        pytest.skip("pandoc is not installed")
    paper.build(tmp_path / "paper.html")
    page = (tmp_path / "paper.html").read_text()
    assert "\\autoref" not in page
    assert "\\label" not in page
    assert "Figure 1" in page
    assert (tmp_path / "errors.svg").is_file()


def test_a_missing_number_is_an_error():
    with pytest.raises(ValueError, match="no number"):
        paper.number_in("-")
