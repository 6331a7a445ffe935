"""A folder that cannot be written to is rejected before the work starts, and the check leaves nothing behind."""

from __future__ import annotations

from raising import raises

from mindyn.foundation.atomic_files import require_writable
from mindyn.foundation.errors import Code, ExportError


def test_the_check_leaves_nothing_behind(tmp_path):
    require_writable(tmp_path / "new" / "motion")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    require_writable(tmp_path / "old")
    assert list((tmp_path / "old").iterdir()) == []


def test_a_folder_below_a_file_is_rejected(tmp_path):
    (tmp_path / "file").write_text("")
    with raises(ExportError, Code.NOT_WRITABLE, "motion"):
        require_writable(tmp_path / "file" / "motion")
