"""A folder that cannot be written into is refused before the work, and what was only tried is not there."""

from __future__ import annotations

import pytest

from mindyn.errors import MindynError
from mindyn.files import require_writable


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path):
    require_writable(tmp_path / "new" / "motion")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old").mkdir()
    require_writable(tmp_path / "old")
    assert list((tmp_path / "old").iterdir()) == []


def test_a_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MindynError, match="cannot be a folder"):
        require_writable(tmp_path / "file" / "motion")
