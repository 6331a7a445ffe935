"""Each fault of `tools/gross_faults.toml` changes one place of the source to other code; each package has one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from gross_faults import read_faults

SOURCE = Path(__file__).parents[2] / "src" / "mindyn"
FAULTS = read_faults()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_changes_one_place_to_other_code(fault):
    text = (SOURCE / fault.file).read_text()
    assert text.count(fault.before) == 1
    changed = ast.parse(text.replace(fault.before, fault.after))
    assert ast.dump(changed) != ast.dump(ast.parse(text))


def test_every_package_has_a_fault():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {fault.package for fault in FAULTS.values()} == packages
