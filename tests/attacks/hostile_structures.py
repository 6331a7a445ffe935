"""Logs whose structure, not a declared length, takes time or memory; added to `LOGS`.

One private name is tested directly: inputs at its limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

import bz2
import io
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from hostile_logs import ARRAYS, attack, columns, csv_text, write_sidecar
from hostile_sizes import (
    CHANNEL,
    COUNT,
    LOGS,
    MCAP_DATA,
    MESSAGES,
    SCHEMA,
    TOPIC,
    TOPICS,
    bag_of_statements,
    chunk_index,
    element,
    mcap,
    parquet_of_footer,
    record,
    text,
    write_packed_mat,
)

__all__ = ["LOGS"]


RATE = ARRAYS.replace('time = "t", ', "").replace('time = "s", ', "") + "rate_hz = 1000\n"
"""No column of time: zeros are a log."""
ROWS_WITHIN = 2**23
"""Rows of four columns that any file may have."""


def npy(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, values, allow_pickle=True)
    return buffer.getvalue()


@attack
def npz_packed_by_bzip2(folder: Path) -> Path:
    """zipfile unpacks bzip2 without a limit: 100 kB become 2 GB, of which an entry of 100 kB is cut out."""
    path, data = write_sidecar(folder / "log.npz", ARRAYS), npy(np.zeros(400_000))
    packer = bz2.BZ2Compressor(9)
    block = bytes(2**24)
    packed = packer.compress(data) + b"".join(packer.compress(block) for _ in range(160)) + packer.flush()
    start = struct.pack("<HHHHH", 46, 0, 12, 0, 0)
    local = central = b""
    for name in (b"t.npy", b"q.npy", b"tau.npy"):
        sizes = struct.pack("<IIIHH", zlib.crc32(data), len(packed), len(data), len(name), 0)
        central += b"PK\1\2" + struct.pack("<H", 46) + start + sizes + bytes(10) + struct.pack("<I", len(local)) + name
        local += b"PK\3\4" + start + sizes + name + packed
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 3, 3, len(central), len(local), 0)
    path.write_bytes(local + central + end)
    return path


@attack
def npz_of_pickled_objects(folder: Path) -> Path:
    path = write_sidecar(folder / "log.npz", ARRAYS)
    with zipfile.ZipFile(path, "w") as file:
        for name in ("t", "q", "tau"):
            file.writestr(f"{name}.npy", npy(np.array([{"a": 1}] * 3, dtype=object)))
    return path


@attack
def npz_of_a_header_of_brackets(folder: Path) -> Path:
    path = write_sidecar(folder / "log.npz", ARRAYS)
    header = b"{'descr': " + b"[" * 4900 + b"]" * 4900 + b"}"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("t", "q", "tau"):
            file.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    return path


@attack
def hdf5_of_groups_nested_30_000_deep(folder: Path) -> Path:
    import h5py

    path = write_sidecar(folder / "log.h5", ARRAYS)
    with h5py.File(path, "w", libver="latest") as file:
        group = file
        for _ in range(30_000):
            group = group.create_group("g")
        group["t"] = np.arange(10.0)
    return path


@attack
def hdf5_of_a_chunk_for_each_number(folder: Path) -> Path:
    import h5py

    path = write_sidecar(folder / "log.h5", ARRAYS)
    with h5py.File(path, "w", libver="latest") as file:
        for name, width in (("t", ()), ("q", (2,)), ("tau", (2,))):
            data = np.zeros((60_000, *width))
            file.create_dataset(name, data=data, chunks=(1,) * data.ndim, compression="gzip", shuffle=True)
    return path


@attack
def hdf5_of_links_to_other_files(folder: Path) -> Path:
    import h5py

    path = write_sidecar(folder / "log.h5", ARRAYS)
    with h5py.File(path, "w") as file:
        for name in ("t", "q", "tau"):
            file[name] = h5py.ExternalLink("/dev/zero", "/x")
        file["self"] = h5py.SoftLink("/self")
        file["again"] = file["/"]
    return path


@attack
def hdf5_of_virtual_datasets(folder: Path) -> Path:
    import h5py

    path = write_sidecar(folder / "log.h5", ARRAYS)
    layout = h5py.VirtualLayout((10_000_000,), "f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "t", (10_000_000,))
    with h5py.File(path, "w") as file:
        for name in ("t", "q", "tau"):
            file.create_virtual_dataset(name, layout)
    return path


@attack
def mat_7_3_of_groups_nested_30_000_deep(folder: Path) -> Path:
    inner = hdf5_of_groups_nested_30_000_deep(folder)
    path = write_sidecar(folder / "log.mat", ARRAYS)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512, b"\0") + inner.read_bytes())
    return path


@attack
def mat_of_structs_in_structs(folder: Path) -> Path:
    flags, shape = element(6, struct.pack("<II", 2, 0)), element(5, struct.pack("<ii", 1, 1))
    names = element(5, struct.pack("<i", 1)) + element(1, b"a")
    inner = b""
    for _ in range(20_000):
        inner = element(14, flags + shape + element(1, b"") + names + inner)
    return write_packed_mat(folder, flags, shape, element(1, b"q"), names, inner)


@attack
def bag_of_numbers_for_messages(folder: Path) -> Path:
    rows = f"insert into messages {COUNT.format('limit 100')} select k, 1, k, 3000000000 + k from n"
    return bag_of_statements(folder, TOPICS, TOPIC, MESSAGES, rows)


@attack
def bag_of_100_000_topics(folder: Path) -> Path:
    topics = (
        f"insert into topics {COUNT.format('limit 100000')} select k, '/topic' || k, 'std_msgs/msg/X', 'cdr' from n"
    )
    return bag_of_statements(folder, TOPICS, topics, MESSAGES)


@attack
def bag_of_100_000_foreign_topics(folder: Path) -> Path:
    topics = f"insert into topics {COUNT.format('limit 100000')} select k, '/t' || k, 'a/msg/B', 'x' from n"
    return bag_of_statements(folder, TOPICS, topics, MESSAGES)


def pack_chunk(records: bytes) -> bytes:
    """Return an MCAP chunk of the records, packed by zstd."""
    import zstandard

    packed = zstandard.ZstdCompressor(level=1).compress(records)
    return record(
        6, struct.pack("<QQQI", 0, 1, len(records), 0) + text("zstd") + struct.pack("<Q", len(packed)) + packed
    )


@attack
def bag_of_eight_million_empty_messages(folder: Path) -> Path:
    """A message takes 31 bytes in a chunk and half a kilobyte as an object."""
    return mcap(folder, pack_chunk(SCHEMA + CHANNEL + record(5, struct.pack("<HIQQ", 1, 0, 0, 0)) * 8_000_000))


@attack
def indexed_bag_of_eight_million_empty_messages(folder: Path) -> Path:
    records = SCHEMA + CHANNEL + record(5, struct.pack("<HIQQ", 1, 0, 0, 0)) * 8_000_000
    chunk = pack_chunk(records)
    return mcap(folder, chunk, SCHEMA + CHANNEL + chunk_index(MCAP_DATA, len(chunk), len(records)))


@attack
def bag_of_chunks_in_chunks(folder: Path) -> Path:
    records = SCHEMA + CHANNEL
    for _ in range(50):
        records = SCHEMA + CHANNEL + pack_chunk(records)
    return mcap(folder, records)


@attack
def json_lines_of_objects_in_a_list(folder: Path) -> Path:
    """Every object of a list has all keys of the others in memory."""
    path = write_sidecar(folder / "log.jsonl")
    wide = "{" + ",".join(f'"k{k}":{k}' for k in range(9000)) + "}"
    path.write_text('{"t":0,"a":[' + wide + ",{}" * 200_000 + "]}\n")
    return path


@attack
def json_lines_of_a_text_that_does_not_end(folder: Path) -> Path:
    path = write_sidecar(folder / "log.jsonl")
    path.write_text('{"a":' + '\\"' * 2_000_000 + "\n")
    return path


@attack
def sidecar_of_a_text_that_does_not_end(folder: Path) -> Path:
    (folder / "log.csv").write_text(csv_text())
    return write_sidecar(folder / "log.csv", "a = [" + '\\"' * 500_000)


@attack
def csv_of_cells_of_one_quote(folder: Path) -> Path:
    path = write_sidecar(folder / "log.csv")
    path.write_text(",".join(columns()) + "\n" + '","' * 4_000_000)
    return path


def parquet(folder: Path, table: dict[str, object], sidecar: str) -> Path:
    import polars as pl

    path = write_sidecar(folder / "log.parquet", sidecar)
    pl.DataFrame(table).write_parquet(path)
    return path


@attack
def parquet_of_long_texts(folder: Path) -> Path:
    """A text of a megabyte that 20 000 rows share becomes 20 GB as Python's objects."""
    import polars as pl

    path = write_sidecar(folder / "log.parquet")
    pl.DataFrame(columns(20_000)).with_columns(q1=pl.lit("x" * 1_000_000, pl.Categorical)).write_parquet(path)
    return path


@attack
def parquet_of_lists_within_the_limit(folder: Path) -> Path:
    import polars as pl

    zeros = pl.Series(np.zeros((ROWS_WITHIN, 2))).arr.to_list()
    return parquet(folder, {"q": zeros, "tau": zeros}, RATE)


@attack
def parquet_of_zeros_within_the_limit(folder: Path) -> Path:
    sidecar = RATE.replace('"q"', '"q{i}"').replace('"tau"', '"tau{i}"')
    return parquet(folder, {name: np.zeros(ROWS_WITHIN) for name in ("q1", "q2", "tau1", "tau2")}, sidecar)


@attack
def npz_of_zeros_within_the_limit(folder: Path) -> Path:
    path, rows = write_sidecar(folder / "log.npz", RATE), ROWS_WITHIN
    np.savez_compressed(path, q=np.zeros((rows, 2)), tau=np.zeros((rows, 2)))
    return path


@attack
def npz_of_bytes(folder: Path) -> Path:
    """A byte becomes a number of eight."""
    path, rows = write_sidecar(folder / "log.npz", RATE), 128_000_000
    zeros = np.zeros((rows, 2), np.int8)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, values in {"q": zeros, "tau": zeros}.items():
            file.writestr(f"{name}.npy", npy(values))
    return path


@attack
def mat_of_bytes(folder: Path) -> Path:
    rows = 100_000_000
    content = b""
    for name, width in (("q", 2), ("tau", 2)):
        flags, shape = element(6, struct.pack("<II", 9, 0)), element(5, struct.pack("<ii", rows, width))
        body = flags + shape + element(1, name.encode()) + element(2, bytes(rows * width))
        packed = zlib.compress(struct.pack("<II", 14, len(body)) + body, 1)
        content += struct.pack("<II", 15, len(packed)) + packed
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    path = write_sidecar(folder / "log.mat", RATE)
    path.write_bytes(header + content)
    return path


@attack
def hdf5_of_bytes(folder: Path) -> Path:
    import h5py

    path, rows = write_sidecar(folder / "log.h5", RATE), 100_000_000
    with h5py.File(path, "w") as file:
        for name, width in (("q", (2,)), ("tau", (2,))):
            data = file.create_dataset(name, (rows, *width), "i1", chunks=(10_000_000, *width), compression="gzip")
            packed = zlib.compress(bytes(10_000_000 * (2 if width else 1)), 1)
            for start in range(0, rows, 10_000_000):
                data.id.write_direct_chunk((start, 0)[: data.ndim], packed)
    return path


@attack
def parquet_footer_of_empty_structs(folder: Path) -> Path:
    count = 30_000_000
    number = bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14 & 127 | 128, count >> 21])
    return parquet_of_footer(folder, b"\x15\2\x19\xfc" + number + bytes(count + 10))


@attack
def parquet_footer_nested_a_million_deep(folder: Path) -> Path:
    return parquet_of_footer(folder, b"\x1c" * 1_000_000 + bytes(1_000_001))


@attack
def parquet_of_pages_without_end(folder: Path) -> Path:
    """A column of a million empty pages, which every row group refers to."""
    import polars as pl

    buffer = io.BytesIO()
    frame = pl.DataFrame(columns(1000))
    frame.write_parquet(buffer, row_group_size=10, compression="uncompressed")
    from mindyn.logs.formats.parquet_table import _ThriftReader

    data = buffer.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    footer = _ThriftReader(data[-8 - length : -8], "log").struct()
    page = b"\x15\0\x15\0\x15\0\x2c\x15\0\x15\0\x15\0\x15\0\0\0"
    body = page * 1_000_000

    def struct_of(fields: dict[int, object]) -> bytes:
        created, before = b"", 0
        for number, value in fields.items():
            code = (
                12
                if isinstance(value, dict)
                else 9
                if isinstance(value, list)
                else 8
                if isinstance(value, bytes)
                else 6
            )
            created += bytes([(number - before) << 4 | code]) + encode(value)
            before = number
        return created + b"\0"

    def varint(n: int) -> bytes:
        created = b""
        while n > 127:
            created, n = result + bytes([n & 127 | 128]), n >> 7
        return created + bytes([n])

    def encode(value: object) -> bytes:
        if isinstance(value, dict):
            return struct_of(value)
        if isinstance(value, list):
            code = 12 if value and isinstance(value[0], dict) else 8 if value and isinstance(value[0], bytes) else 5
            return (bytes([15 << 4 | code]) + varint(len(value))) + b"".join(map(encode, value))
        if isinstance(value, bytes):
            return varint(len(value)) + value
        assert isinstance(value, int)
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)

    groups = footer[4]
    for group in groups:
        for chunk in group[1]:
            about = {k: chunk[3][k] for k in (1, 2, 3, 4, 5, 6, 7, 9)}
            chunk[3] = about | {7: len(body), 9: 4, 6: len(body)}
    result = struct_of({1: 2, 2: footer[2], 3: footer[3], 4: [{1: g[1], 2: g[2], 3: g[3]} for g in groups]})
    path = write_sidecar(folder / "log.parquet")
    path.write_bytes(b"PAR1" + body + result + struct.pack("<I", len(result)) + b"PAR1")
    return path
