"""Logs that declare more than they hold, or that become far more than they are; added to `LOGS`."""

from __future__ import annotations

import io
import sqlite3
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from hostile_logs import ARRAYS, LOGS, attack, columns, csv_text, write_sidecar

__all__ = ["LOGS"]


def bag_of_statements(folder: Path, *statements: str) -> Path:
    """Write a rosbag2 whose tables are created by the statements."""
    path = folder / "bag.db3"
    with sqlite3.connect(path) as base:
        for statement in statements:
            base.execute(statement)
    base.close()
    return path


TOPICS = "create table topics (id integer, name text, type text, serialization_format text)"
TOPIC = "insert into topics values (1, '/joint_states', 'sensor_msgs/msg/JointState', 'cdr')"
MESSAGES = "create table messages (id integer, topic_id integer, timestamp integer, data blob)"
COUNT = "with recursive n(k) as (select 1 union all select k + 1 from n {}) "


@attack
def bag_with_a_view_in_capitals(folder: Path) -> Path:
    view = (
        f"create view MESSAGES as {COUNT.format('')} select k as id, 1 as topic_id, k as timestamp, '' as data from n"
    )
    return bag_of_statements(folder, TOPICS, TOPIC, view)


@attack
def bag_of_generated_columns(folder: Path) -> Path:
    table = MESSAGES.replace("data blob", "data blob generated always as (zeroblob(16000000)) virtual")
    rows = f"insert into messages (id, topic_id, timestamp) {COUNT.format('limit 100000')} select k, 1, k from n"
    return bag_of_statements(folder, TOPICS, TOPIC, table, rows)


@attack
def bag_of_default_values(folder: Path) -> Path:
    """Rows that were written before a column was added have its default value, which the file holds once."""
    table = "create table messages (id integer, topic_id integer, timestamp integer)"
    rows = f"insert into messages {COUNT.format('limit 100000')} select k, 1, k from n"
    added = f"alter table messages add column data blob default x'{'00' * 500_000}'"
    return bag_of_statements(folder, TOPICS, TOPIC, table, rows, added)


@attack
def bag_that_repeats_its_topic(folder: Path) -> Path:
    """Every message belongs to every topic: a hundred million rows in a megabyte."""
    topics = (
        f"insert into topics {COUNT.format('limit 10000')} select 1, '/j', 'sensor_msgs/msg/JointState', 'cdr' from n"
    )
    rows = f"insert into messages {COUNT.format('limit 10000')} select k, 1, k, zeroblob(60) from n"
    return bag_of_statements(folder, TOPICS, topics, MESSAGES, rows)


def record(kind: int, content: bytes) -> bytes:
    return struct.pack("<BQ", kind, len(content)) + content


def text(word: str) -> bytes:
    return struct.pack("<I", len(word)) + word.encode()


def chunk_of_zeros(size: int, declared: int | None = None, said_by_frame: bool = True) -> bytes:
    """Return an MCAP chunk whose records are zeros, packed by zstd."""
    import zstandard

    packer = zstandard.ZstdCompressor(level=1, write_content_size=said_by_frame).compressobj(
        size=size if said_by_frame else -1
    )
    packed = b"".join(packer.compress(bytes(2**24)) for _ in range(size >> 24)) + packer.flush()
    head = struct.pack("<QQQI", 0, 1, size if declared is None else declared, 0)
    return record(6, head + text("zstd") + struct.pack("<Q", len(packed)) + packed)


def mcap(folder: Path, body: bytes, summary: bytes = b"") -> Path:
    """Write an MCAP file of records and the records of its summary."""
    start = b"\x89MCAP0\r\n" + record(1, struct.pack("<II", 0, 0)) + body + record(15, struct.pack("<I", 0))
    footer = record(2, struct.pack("<QQI", len(start) if summary else 0, 0, 0))
    (folder / "bag.mcap").write_bytes(start + summary + footer + b"\x89MCAP0\r\n")
    return folder / "bag.mcap"


MCAP_DATA = 8 + 9 + 8
"""Where the records that are given to `mcap` begin."""
SCHEMA = record(3, struct.pack("<H", 1) + text("sensor_msgs/msg/JointState") + text("ros2msg") + struct.pack("<I", 0))
CHANNEL = record(4, struct.pack("<HH", 1, 1) + text("/joint_states") + text("cdr") + struct.pack("<I", 0))


def chunk_index(start: int, length: int, size: int) -> bytes:
    places = struct.pack("<QQQQ", 0, 1, start, length) + struct.pack("<IQ", 0, 0)
    return record(8, places + text("zstd") + struct.pack("<QQ", length, size))


@attack
def bag_with_a_chunk_inside_an_attachment(folder: Path) -> Path:
    size = 2**32 - 2**24
    chunk = chunk_of_zeros(size)
    head = struct.pack("<QQ", 0, 0) + text("a") + text("b") + struct.pack("<Q", len(chunk))
    attachment = record(9, head + chunk + struct.pack("<I", 0))
    index = chunk_index(MCAP_DATA + 9 + len(head), len(chunk), size)
    return mcap(folder, attachment, SCHEMA + CHANNEL + index)


@attack
def bag_whose_summary_lies_in_an_attachment(folder: Path) -> Path:
    chunk = chunk_of_zeros(2**31)
    head = struct.pack("<QQ", 0, 0) + text("a") + text("b") + struct.pack("<Q", len(chunk))
    path = mcap(folder, record(9, head + chunk + struct.pack("<I", 0)), SCHEMA + CHANNEL)
    footer = record(2, struct.pack("<QQI", MCAP_DATA + 9 + len(head), 0, 0))
    path.write_bytes(path.read_bytes()[: -8 - len(footer)] + footer + b"\x89MCAP0\r\n")
    return path


@attack
def bag_with_a_chunk_of_a_gigabyte_after_its_footer(folder: Path) -> Path:
    path = mcap(folder, b"")
    path.write_bytes(path.read_bytes() + mcap(folder, chunk_of_zeros(2**30)).read_bytes())
    return path


@attack
def bag_whose_frame_does_not_say_its_size(folder: Path) -> Path:
    return mcap(folder, SCHEMA + CHANNEL + chunk_of_zeros(2**31, 2**31, said_by_frame=False))


@attack
def npz_header_of_four_gigabytes(folder: Path) -> Path:
    path = write_sidecar(folder / "log.npz", ARRAYS)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name in ("t", "q", "tau"):
            with file.open(f"{name}.npy", "w", force_zip64=True) as stream:
                stream.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 2**24))
                for _ in range(255):
                    stream.write(b" " * 2**24)
    return path


@attack
def npz_of_a_million_entries(folder: Path) -> Path:
    """A directory of entries that all lie at the same place."""
    path, name = write_sidecar(folder / "log.npz", ARRAYS), b"t.npy"
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.zeros(3))
    data = buffer.getvalue()
    sizes = struct.pack("<IIIHH", zlib.crc32(data), len(data), len(data), len(name), 0)
    local = b"PK\3\4" + struct.pack("<HHHHH", 20, 0, 0, 0, 0) + sizes + name + data
    entry = b"PK\1\2" + struct.pack("<HHHHHH", 20, 20, 0, 0, 0, 0) + sizes + bytes(14) + name
    count = 1_000_000
    with path.open("wb") as file:
        file.write(local + entry * count)
        file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 2**16 - 1, 2**16 - 1, len(entry) * count, len(local), 0))
    return path


def hdf5_of_packed_zeros(folder: Path, size: int, rows: int, declared_rows: int) -> Path:
    """Write datasets whose only chunk is a deflated stream of `size` zeros."""
    import h5py

    path = write_sidecar(folder / "log.h5", ARRAYS)
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(2**24)) for _ in range(size >> 24)) + packer.flush()
    with h5py.File(path, "w") as file:
        for name, width in (("t", ()), ("q", (2,)), ("tau", (2,))):
            shape = (declared_rows, *width)
            data = file.create_dataset(
                name, shape, "f8", maxshape=(None, *width), chunks=(rows, *width), compression="gzip"
            )
            data.id.write_direct_chunk((0,) * len(shape), packed)
    return path


@attack
def hdf5_chunk_that_expands_to_four_gigabytes(folder: Path) -> Path:
    return hdf5_of_packed_zeros(folder, 2**32 - 2**24, 1000, 1000)


@attack
def hdf5_chunk_larger_than_its_dataset(folder: Path) -> Path:
    return hdf5_of_packed_zeros(folder, 2**31 - 2**24, 2**31 // 16 - 2**20, 1000)


@attack
def hdf5_without_the_chunks_that_it_declares(folder: Path) -> Path:
    import h5py

    path = write_sidecar(folder / "log.h5", ARRAYS)
    with h5py.File(path, "w") as file:
        for name, width in (("t", ()), ("q", (2,)), ("tau", (2,))):
            file.create_dataset(name, (10_000_000, *width), "f8", chunks=(1000, *width))
    return path


@attack
def json_lines_of_300_000_keys(folder: Path) -> Path:
    path = write_sidecar(folder / "log.jsonl")
    path.write_text("".join("{" + f'"k{k}":{k}' + "}\n" for k in range(300_000)))
    return path


@attack
def json_line_of_300_000_keys(folder: Path) -> Path:
    path = write_sidecar(folder / "log.jsonl")
    path.write_text("{" + ",".join(f'"k{k}":{k}' for k in range(300_000)) + "}\n" + '{"k0":1}\n' * 1000)
    return path


@attack
def json_lines_of_few_words_on_many_paths(folder: Path) -> Path:
    """Two words on every path of 17 steps: 131 072 columns."""

    def tree(depth: int) -> str:
        below = tree(depth - 1) if depth else "1"
        return f'{{"a":{below},"b":{below}}}'

    path = write_sidecar(folder / "log.jsonl")
    path.write_text((tree(16) + "\n") + '{"a":1}\n' * 1000)
    return path


@attack
def json_lines_nested_900_deep(folder: Path) -> Path:
    path = write_sidecar(folder / "log.jsonl")
    path.write_text(('{"a":' * 900 + "1" + "}" * 900 + "\n") * 100)
    return path


@attack
def json_lines_of_lists_nested_900_deep(folder: Path) -> Path:
    path = write_sidecar(folder / "log.jsonl")
    path.write_text(('{"a":' + "[" * 900 + "1" + "]" * 900 + "}\n") * 100)
    return path


@attack
def json_lines_of_sparse_rows(folder: Path) -> Path:
    path = write_sidecar(folder / "log.jsonl")
    first = "{" + ",".join(f'"k{k}":{k}' for k in range(9000)) + "}\n"
    path.write_text(first + '{"k0":1}\n' * 1_000_000)
    return path


@attack
def csv_of_rows_without_cells(folder: Path) -> Path:
    path = write_sidecar(folder / "log.csv")
    names = [*columns(), *(f"c{k}" for k in range(5000))]
    row = ",".join(["0"] * len(names))
    path.write_text(",".join(names) + "\n" + row + "\n" + "0\n" * 5_000_000)
    return path


@attack
def sidecar_of_escaped_key_parts(folder: Path) -> Path:
    (folder / "log.csv").write_text(csv_text())
    return write_sidecar(folder / "log.csv", '"\\"".' * 28_000 + "a = 1\n")


@attack
def sidecar_of_many_long_keys(folder: Path) -> Path:
    (folder / "log.csv").write_text(csv_text())
    return write_sidecar(folder / "log.csv", "".join(f"a{k}.{'b.' * 60}c = 1\n" for k in range(8000)))


def write_packed_mat(folder: Path, *elements: bytes) -> Path:
    """Write a MATLAB file of one compressed matrix whose elements are given."""
    content = b"".join(elements)
    packed = zlib.compress(struct.pack("<II", 14, len(content)) + content, 1)
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    path = write_sidecar(folder / "log.mat", ARRAYS)
    path.write_bytes(header + struct.pack("<II", 15, len(packed)) + packed)
    return path


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


@attack
def mat_of_a_hundred_million_axes(folder: Path) -> Path:
    shape = struct.pack("<i", 3) * 100_000_000
    return write_packed_mat(folder, element(6, struct.pack("<II", 6, 0)), element(5, shape), element(1, b"q"))


@attack
def mat_of_a_hundred_million_fields(folder: Path) -> Path:
    flags, shape, name = element(6, struct.pack("<II", 2, 0)), element(5, struct.pack("<ii", 1, 1)), element(1, b"q")
    return write_packed_mat(
        folder, flags, shape, name, element(5, struct.pack("<i", 1)), element(1, b"a" * 100_000_000)
    )


@attack
def mat_of_a_long_name(folder: Path) -> Path:
    flags, shape = element(6, struct.pack("<II", 2, 0)), element(5, struct.pack("<ii", 1, 1))
    return write_packed_mat(folder, flags, shape, element(1, b"q" * 400_000_000))


def parquet_of_footer(folder: Path, footer: bytes, declared: int | None = None) -> Path:
    path = write_sidecar(folder / "log.parquet")
    path.write_bytes(b"PAR1" + footer + struct.pack("<I", len(footer) if declared is None else declared) + b"PAR1")
    return path


@attack
def parquet_footer_longer_than_the_file(folder: Path) -> Path:
    return parquet_of_footer(folder, bytes(1000), 2**31 - 1)


@attack
def parquet_number_of_a_million_bytes(folder: Path) -> Path:
    return parquet_of_footer(folder, b"\x15" + b"\xff" * 4_000_000 + b"\1")


@attack
def parquet_list_that_lies(folder: Path) -> Path:
    return parquet_of_footer(folder, b"\x15\2\x19\xf1" + b"\xff\xff\xff\xff\x0f" + bytes(100))


@attack
def bag_with_a_record_longer_than_the_file(folder: Path) -> Path:
    return mcap(folder, SCHEMA + CHANNEL + struct.pack("<BQ", 9, 2**40))
