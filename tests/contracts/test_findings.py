"""Every kind of finding is shown on the terminal, in the report and as JSON; thresholds are one table."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pytest
from estimators.recovered import smooth_samples

import mindyn
from mindyn.cli.printing import print_findings
from mindyn.foundation.findings import Finding, Kind, Severity
from mindyn.identification.diagnostics import thresholds
from mindyn.identification.diagnostics.diagnose import EXPLAINS, explain
from mindyn.output.report.report_data import collect_report_data
from mindyn.output.report.write_report import build_page
from mindyn.regression.build_rows import build_rows
from mindyn.regression.regressor import with_estimated_drives

DIAGNOSTICS = Path(thresholds.__file__).parent
PLAIN = (0, 0.5, 1, 2)


def finding(kind, severity=Severity.WARNING, joints=()):
    return Finding(kind, severity, f"message of {kind.name}", f"Remedy of {kind.name}", joints)


@pytest.fixture(scope="module")
def estimate():
    robot = with_estimated_drives(mindyn.load_robot("planar2"))
    return mindyn.LeastSquares().fit(build_rows(robot, smooth_samples(robot, 400)))


@pytest.mark.parametrize("severity", Severity)
def test_every_kind_is_shown_everywhere(estimate, severity, capsys, tmp_path):
    changed = estimate.with_provenance(findings=tuple(finding(kind, severity) for kind in Kind))
    html = build_page(collect_report_data(changed))
    changed.save(tmp_path / "estimate.json")
    saved = json.loads((tmp_path / "estimate.json").read_text())["provenance"]["findings"]
    assert mindyn.load_estimate(tmp_path / "estimate.json").findings == changed.findings
    for item in changed.findings:
        print_findings([item], verbose=True)
        printed = capsys.readouterr().err
        assert printed.splitlines() == [f"{severity:<8} {item.message}", f"{'':9}{item.remedy}"]
        explained = any(item.kind in EXPLAINS.get(kind, ()) for kind in Kind)
        if not explained or severity is Severity.INFO:
            assert item.remedy in html
        assert item.to_dict() in saved


def test_infos_are_counted_unless_requested(capsys):
    print_findings([finding(Kind.CONTACT), finding(Kind.STAMPS, Severity.INFO), finding(Kind.GEARS, Severity.INFO)])
    printed = capsys.readouterr().err
    assert "message of CONTACT" in printed
    assert "message of STAMPS" not in printed
    assert "2 more findings" in printed


def test_consequences_are_named_and_applied_delays_always_shown(capsys):
    consequence = replace(finding(Kind.UNEXPLAINED_TORQUE), explained_by=Kind.CONTACT)
    print_findings([finding(Kind.CONTACT), consequence, finding(Kind.APPLIED_DELAY, Severity.INFO)])
    printed = capsys.readouterr().err
    assert "message of UNEXPLAINED_TORQUE" not in printed
    assert "consequences: unexplained torque" in printed
    assert "message of APPLIED_DELAY" in printed
    assert "Remedy of APPLIED_DELAY" in printed
    assert "more findings" not in printed


def test_a_cause_explains_consequences_at_its_own_joints():
    sign = finding(Kind.WRONG_TORQUE_SIGN, joints=("joint2",))
    near = finding(Kind.INFEASIBLE_VALUES, joints=("joint2", "joint3"))
    far = finding(Kind.INFEASIBLE_VALUES, joints=("joint5",))
    poor = finding(Kind.UNEXPLAINED_TORQUE, joints=("joint3",))
    marked = {item.joints: item.explained_by for item in explain([far, near, poor, sign])}
    assert marked == {
        ("joint2",): None,
        ("joint5",): None,
        ("joint2", "joint3"): Kind.WRONG_TORQUE_SIGN,
        ("joint3",): Kind.WRONG_TORQUE_SIGN,
    }
    everywhere = explain([far, finding(Kind.STILL_JOINT, Severity.ERROR, ("joint1",))])
    assert [item.explained_by for item in everywhere] == [None, Kind.STILL_JOINT]
    assert everywhere[0].kind == Kind.STILL_JOINT


def test_a_poor_motion_does_not_hide_a_wrong_sign():
    """The residual of a wrong sign makes the parameters uncertain."""
    sign, poor = finding(Kind.WRONG_TORQUE_SIGN, joints=("joint2",)), finding(Kind.POOR_MOTION, Severity.ERROR)
    assert [item.explained_by for item in explain([poor, sign])] == [None, Kind.WRONG_TORQUE_SIGN]


def test_a_wrong_zero_explains_delays_of_other_joints():
    zero = finding(Kind.WRONG_JOINT_ZERO, joints=("joint2",))
    late = finding(Kind.DELAYED_TORQUE, Severity.ERROR, ("joint4",))
    assert [item.explained_by for item in explain([late, zero])] == [None, Kind.WRONG_JOINT_ZERO]


def test_no_kind_explains_itself_or_its_cause():
    for cause, effects in EXPLAINS.items():
        assert cause not in effects
        assert not any(cause in EXPLAINS.get(effect, ()) for effect in effects)
    list(TopologicalSorter(EXPLAINS).static_order())  # raises if causes form a circle


def test_consequences_of_consequences_have_the_first_cause():
    """Swapped torques leave torque unexplained at joint 5, and so link 5 is infeasible."""
    swapped = finding(Kind.SWAPPED_TORQUES, Severity.WARNING, ("joint2", "joint3"))
    poor = finding(Kind.UNEXPLAINED_TORQUE, Severity.WARNING, ("joint5",))
    infeasible = finding(Kind.INFEASIBLE_VALUES, Severity.WARNING, ("joint5",))
    causes = {item.kind: item.explained_by for item in explain([infeasible, poor, swapped])}
    assert causes[Kind.INFEASIBLE_VALUES] == causes[Kind.UNEXPLAINED_TORQUE] == Kind.SWAPPED_TORQUES
    assert {item.kind: item.explained_by for item in explain([infeasible, swapped])}[Kind.INFEASIBLE_VALUES] is None


def test_thresholds_state_their_rates():
    tree = ast.parse(Path(thresholds.__file__).read_text())
    names = [node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)]
    texts = [node.value.value for node in tree.body[1:] if isinstance(node, ast.Expr)]
    assert len(texts) == len(names)
    for name, text in zip(names, texts, strict=True):
        assert re.search(r"Rates:|affects only the wording|Rates as", text), f"{name} states no rates"


@pytest.mark.parametrize("path", sorted(DIAGNOSTICS.glob("*.py")), ids=lambda path: path.name)
def test_diagnostics_use_only_named_thresholds(path):
    """A number in a comparison decides: it belongs in the table."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            literals = [item.value for side in sides for item in ast.walk(side) if isinstance(item, ast.Constant)]
            odd = [
                literal
                for literal in literals
                if isinstance(literal, (int, float)) and literal not in PLAIN and literal > 1e-200
            ]
            assert not odd, f"{path.name}:{node.lineno} compares with {odd}"


def test_findings_survive_json():
    changed = replace(finding(Kind.DELAYED_TORQUE, joints=("a",)), value=0.018, unit="s", details=("x",))
    assert Finding.from_dict(json.loads(json.dumps(changed.to_dict()))) == changed
    cause = replace(changed, explained_by=Kind.CONTACT, value=float(np.float64(1.0)))
    assert Finding.from_dict(json.loads(json.dumps(cause.to_dict()))) == cause
