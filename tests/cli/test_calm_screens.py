"""The first screen gives the verdict, then one line for each problem with its fix; `--verbose` gives the rest."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from unittest.mock import patch

from cli.program import mindyn_program

import mindyn
from mindyn.cli.main import run
from mindyn.cli.printing import print_problems
from mindyn.foundation.findings import Finding, Kind, Severity, info, warning
from mindyn.motions.excitation.limits import guessed_limit

FINDINGS = (
    warning(Kind.GUESSED_VOLUME, "the volume of a is guessed", "add geometry", ("a",)),
    warning(Kind.GUESSED_VOLUME, "the volume of b is guessed", "add geometry", ("b",)),
    warning(Kind.GUESSED_FLOOR, "the floor is guessed", "pass --floor"),
    info(Kind.GUESSED_NOISE, "the noise is guessed"),
    Finding(Kind.LIMIT_VIOLATED, Severity.ERROR, "joint1 exceeds its limit", "lower the speed"),
)


def printed(*, verbose: bool) -> list[str]:
    stream = io.StringIO()
    with redirect_stderr(stream):
        print_problems(FINDINGS, verbose=verbose)
    return stream.getvalue().splitlines()


def test_each_kind_of_warning_is_one_line_with_its_fix_and_errors_are_in_full():
    first, *others, more = printed(verbose=False)
    assert "joint1 exceeds its limit" in first
    assert "lower the speed" in first
    assert others == ["warning: guessed volume (2): add geometry", "warning: guessed floor: pass --floor"]
    assert "--verbose" in more


def test_verbose_prints_every_finding():
    lines = printed(verbose=True)
    assert len(lines) == len(FINDINGS)
    assert all(finding.message in line for finding, line in zip(FINDINGS, lines, strict=True))


def test_a_guessed_limit_is_explained_with_its_fix():
    for names, whose in ((("a",), "this joint"), (("a", "b"), "these joints")):
        stream = io.StringIO()
        with redirect_stderr(stream):
            print_problems([guessed_limit("acceleration is guessed", ("acceleration",), names)], verbose=False)
        text = " ".join(stream.getvalue().split())
        assert f"The robot file states no acceleration for {whose}, so mindyn assumed values." in text
        assert "Set acceleration in the limits file (--limits)" in text


def test_identify_prints_the_verdict_before_its_findings(tmp_path):
    assert mindyn_program("simulate", "planar2", "--seconds", 3, "--out", tmp_path / "run.csv").code == 0
    stream = io.StringIO()  # both streams in the order of printing, as on a terminal
    words = ["mindyn", "identify", "planar2", str(tmp_path / "run.csv")]
    with redirect_stdout(stream), redirect_stderr(stream), patch.object(sys, "argv", words), suppress(SystemExit):
        run()
    text = stream.getvalue()
    table = text.index("all joints")
    assert not [line for line in text[:table].splitlines() if line.startswith(("warning ", "error ", "info "))]
    assert "The logs of the fit have 3 s, which is short" in " ".join(text.split())


def test_kinds_that_the_first_screen_abbreviates_name_a_problem():
    """Every warning of a designed motion is understandable by its kind."""
    robot = mindyn.load_robot("ur10")
    search = mindyn.SearchSettings(1, 0.0)
    design = mindyn.design_motion(robot, seconds=5.0, search=search)
    assert all(f.remedy for f in design.findings if f.severity is Severity.WARNING)
