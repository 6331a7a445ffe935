"""Tables of several files, row groups and numbered columns are read in step.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import numpy as np
import pytest
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.formats.bag_table import _list_parts
from mindyn.logs.formats.parquet_table import MAX_WHOLE_GROUP_ROWS, _plan_fetches
from mindyn.logs.formats.tables import read_in_step, regroup_rows
from mindyn.logs.log_errors import LogError


class Rows:
    """A table of rows 0, 1, 2, ... that comes in chunks of its own lengths."""

    def __init__(self, name, *lengths):
        self.name, self.lengths = name, lengths

    def chunks(self, names, _rows):
        start = 0
        for length in self.lengths:
            yield {name: np.arange(start, start + length) for name in names}
            start += length


def test_tables_are_read_in_step():
    entry, two = Rows("one.csv", 2, 3, 1), Rows("two.csv", 6)
    parts = list(read_in_step([(entry, ["a"]), (two, ["b"])], 4, "run"))
    assert [[chunk.tolist() for part in step for chunk in part.values()] for step in parts] == [
        [[0, 1, 2, 3], [0, 1, 2, 3]],
        [[4, 5], [4, 5]],
    ]
    assert [len(step[0]["a"]) for step in read_in_step([(entry, ["a"])], 4, "run")] == [2, 3, 1]
    with raises(LogError, code=Code.DISAGREEMENT, subject="run"):
        list(read_in_step([(entry, ["a"]), (Rows("three.csv", 13), ["b"])], 4, "run"))
    with raises(LogError, code=Code.DISAGREEMENT, subject="run"):
        list(read_in_step([(entry, ["a"]), (Rows("none.csv"), ["b"])], 4, "run"))
    assert list(read_in_step([(Rows("x"), ["a"]), (Rows("y"), ["b"])], 4, "run")) == []
    blocks = list(regroup_rows(iter(Rows("x", 1, 9, 2).chunks(["a"], 3)), 4))
    assert [block["a"].tolist() for block in blocks] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    rest = list(regroup_rows(iter(Rows("x", 5).chunks(["a"], 3)), 4))
    assert [len(item["a"]) for item in rest] == [4, 1]


@pytest.mark.parametrize(
    ("groups", "rows", "read"),
    [
        ([10, 10, 10], 15, [(0, 20), (20, 10)]),
        ([10, 10, 10], 10, [(0, 10), (10, 10), (20, 10)]),
        ([], 10, []),
        ([MAX_WHOLE_GROUP_ROWS, 1], 2 * MAX_WHOLE_GROUP_ROWS, [(0, MAX_WHOLE_GROUP_ROWS), (MAX_WHOLE_GROUP_ROWS, 1)]),
        ([5, MAX_WHOLE_GROUP_ROWS - 3, 5], 10, [(0, 5), (5, MAX_WHOLE_GROUP_ROWS - 3), (MAX_WHOLE_GROUP_ROWS + 2, 5)]),
    ],
)
def test_row_groups_are_read_whole(groups, rows, read):
    assert list(_plan_fetches(groups, rows)) == read


def test_parts_of_a_bag_follow_their_numbers(tmp_path):
    names = [f"run_{k}.db3" for k in (10, 2, 1, 0)]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert [part.name for part in _list_parts(tmp_path)] == ["run_0.db3", "run_1.db3", "run_2.db3", "run_10.db3"]
