"""Row groups of a Parquet file, read from its footer (Thrift's compact protocol), which polars does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindyn.logs.findings import LogError

_MARK = b"PAR1"
_ROW_GROUPS, _GROUP_ROWS = 4, 3
"""Numbers of the fields FileMetaData.row_groups and RowGroup.num_rows in the format's Thrift definition."""
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12


def group_rows(path: Path) -> list[int]:
    """Rows of every row group."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        tail = file.read(8)
        if tail[4:] != _MARK:
            raise LogError(f"{path.name} does not end as a Parquet file does", hint="is the copy complete?")
        file.seek(-8 - int.from_bytes(tail[:4], "little"), 2)
        footer = _Footer(file.read(int.from_bytes(tail[:4], "little")))
    return [group[_GROUP_ROWS] for group in footer.struct()[_ROW_GROUPS]]


class _Footer:
    """Values of a footer, read one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, Any]:
        """Fields by number."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15) for _ in range(count)]
        if kind == _BINARY:
            return self._skipped(self._varint())
        if kind == _DOUBLE:
            return self._skipped(8)
        return self._byte() if kind in (_TRUE, _FALSE, _BYTE) else self._integer()

    def _skipped(self, count: int) -> None:
        self.at += count

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _integer(self) -> int:
        """Zigzag: 0, -1, 1, -2, ..."""
        coded = self._varint()
        return (coded >> 1) ^ -(coded & 1)
