"""The benchmarks page is what the benchmarks wrote, and README says the same figures."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from leaderboard.page import format_agreements, format_ranges, format_rows, read_agreements, read_records

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("benchmark_sections", ROOT / "benchmarks" / "sections.py")
sections = sys.modules["benchmark_sections"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sections)

PAGE = (ROOT / "docs" / "benchmarks.md").read_text()
README = " ".join((ROOT / "README.md").read_text().split())


def cells(*start: str) -> list[str]:
    """The further cells of the row of the page that begins with these."""
    lead = r"\s*\|\s*".join(map(re.escape, start))
    row = re.search(rf"^\| {lead}\s*\|(.*)\|$", PAGE, re.MULTILINE)
    assert row is not None, f"no row {start}"
    return [cell.strip() for cell in row[1].split("|")]


def number(cell: str) -> float:
    return float(re.match(r"[\d.]+(e\d+)?", cell)[0])


def test_the_page_is_what_the_benchmarks_wrote():
    assert sections.page() == PAGE


@pytest.mark.parametrize("name", sections.ORDER)
def test_every_section_was_recorded_by_a_command_that_exists(name):
    record = (sections.RECORDS / f"{name}.md").read_text()
    modules = re.findall(r"python -m\s(benchmarks\.[\w.]+)", record.split("\n\n")[1])
    assert modules or "`make bench`" in record
    assert all((ROOT / f"{name.replace('.', '/')}.py").is_file() for name in modules)


def test_every_record_is_on_the_page():
    assert {path.stem for path in sections.RECORDS.glob("*.md")} == set(sections.ORDER)


def test_sections_are_aligned_and_mark_ratios_below_the_required_one():
    section = sections.Section("kernels", "T", "make x", "a machine", ["text " * 40], [("a", "bb"), ("ccc", "d")])
    assert "| a   | bb |\n|-----|----|\n| ccc | d  |" in section.markdown()
    assert max(map(len, section.markdown().splitlines())) <= 120
    assert sections.ratio(1.78, 1.8) == "1.78x (short)"
    assert sections.ratio(64.93, 40) == "64.9x"
    assert sections.spaced(1_000_000) == "1 000 000"


def test_readme_speeds_are_those_of_the_page():
    ours, theirs = map(number, cells("puma560", "inverse dynamics")[:2])
    peer = r"Pinocchio, compiled in C\+\+ for the same CPU, takes"
    match = re.search(
        rf"takes (\d+) ns per sample on one core; {peer} (\d+) ns\. One H200 computes (\d+)e9 samples per second",
        README,
    )
    assert match is not None
    assert int(match[1]) == round(ours)
    assert abs(int(match[2]) - theirs) < 10
    assert int(match[3]) == int(number(cells("inverse dynamics", "float64")[0]) / 1e9)


def test_the_leaderboard_page_has_the_numbers_of_its_records():
    records = read_records()
    page = (ROOT / "docs" / "leaderboard.md").read_text()
    for row in (*format_rows(records), *format_ranges(records), *format_agreements(read_agreements())):
        assert "| " + " | ".join(row) + " |" in page
    assert len({record["set"] for record in records}) == 8
    assert len({(record["set"], record["method"]) for record in records}) == 8 * 9, "every method on every set"
    for record in records:
        assert {"date", "machine", "versions", "seconds", "wall_s"} <= set(record)
        assert (record["total"] is None) == bool(record["reason"])


def test_readme_memory_of_long_logs_is_that_of_the_page():
    match = re.search(r"10 million rows in ([\d.]+) GB", README)
    assert match is not None
    assert float(match[1]) == round(number(cells("as written by default")[2]) / 1000, 1)
