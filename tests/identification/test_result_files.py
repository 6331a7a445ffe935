"""Files of results name their logs relative to their folder, and notice any change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from raising import raises

from mindyn.foundation.errors import Code, InputError
from mindyn.identification import Elasticity, load_elasticity
from mindyn.logs.log import SourceFile


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "run"
    folder.mkdir(parents=True)
    log = tmp_path / "project" / "log.csv"
    log.write_text("t\n")
    return Elasticity((), 8.0, 0, (SourceFile(str(log), "0", None),)).save(folder / "elasticity.json")


def test_logs_are_found_after_a_project_has_moved(saved, tmp_path):
    assert json.loads(saved.read_text())["sources"][0]["path"] == "../log.csv"
    (tmp_path / "project").rename(tmp_path / "moved")
    (source,) = load_elasticity(tmp_path / "moved" / "run").sources
    assert Path(source.path) == tmp_path / "moved" / "log.csv"


def test_a_file_without_its_checksum_or_with_another_entry_is_rejected(saved):
    values = json.loads(saved.read_text())
    for change in ({**values, "cutoff_hz": 9.0}, {k: v for k, v in values.items() if k != "sha256"}):
        saved.write_text(json.dumps(change))
        with raises(InputError, Code.DISAGREEMENT, "sha256"):
            load_elasticity(saved)


@pytest.mark.parametrize(("given", "hint"), [("mindyn elasticity 0", "another version"), ("other", "")])
def test_another_format_is_named(saved, given, hint):
    saved.write_text(json.dumps({**json.loads(saved.read_text()), "format": given}))
    with raises(InputError, Code.WRONG_FORMAT) as raised:
        load_elasticity(saved)
    assert given in str(raised.value)
    assert hint in (raised.value.hint or "")
