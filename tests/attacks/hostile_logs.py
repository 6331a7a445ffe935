"""Log files made to break a reader: each function writes one into a folder and gives its path."""

from __future__ import annotations

import io
import os
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

SIDECAR = """
side = "joint"
columns = { time = "t", position = "q{i}", torque = "tau{i}" }
units = { time = "s", position = "rad", torque = "N m" }
"""
ARRAYS = """
joints = ["joint1", "joint2"]
side = "joint"
columns = { time = "t", position = "q", torque = "tau" }
units = { time = "s", position = "rad", torque = "N m" }
"""
Attack = Callable[[Path], Path]
LOGS: dict[str, Attack] = {}


def attack(make: Attack) -> Attack:
    LOGS[make.__name__] = make
    return make


def write_sidecar(path: Path, text: str = SIDECAR) -> Path:
    path.with_name(path.name + ".toml").write_text(text)
    return path


def columns(rows: int = 400) -> dict[str, np.ndarray]:
    """A log of a two-joint arm that reads well."""
    t = np.arange(rows) / 200
    return {"t": t, "q1": np.sin(t), "q2": np.cos(3 * t), "tau1": np.cos(t), "tau2": np.sin(2 * t)}


def csv_text(rows: int = 400) -> str:
    table = columns(rows)
    lines = [",".join(repr(float(v)) for v in row) for row in zip(*table.values(), strict=True)]
    return "\n".join([",".join(table), *lines, ""])


def arrays(rows: int = 400) -> dict[str, np.ndarray]:
    table = columns(rows)
    both = {name: np.column_stack([table[f"{name}1"], table[f"{name}2"]]) for name in ("q", "tau")}
    return {"t": table["t"], **both}


@attack
def endless_device_as_csv(folder: Path) -> Path:
    (folder / "zero.csv").symlink_to("/dev/zero")
    return write_sidecar(folder / "zero.csv")


@attack
def pipe_without_writer(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.csv")
    return write_sidecar(folder / "pipe.csv")


@attack
def pipe_inside_a_bag(folder: Path) -> Path:
    (folder / "bag").mkdir()
    os.mkfifo(folder / "bag" / "part_0.mcap")
    return folder / "bag"


@attack
def pipe_as_sidecar(folder: Path) -> Path:
    (folder / "log.csv").write_text(csv_text())
    os.mkfifo(folder / "log.csv.toml")
    return folder / "log.csv"


@attack
def endless_link(folder: Path) -> Path:
    (folder / "loop.csv").symlink_to("loop.csv")
    return folder / "loop.csv"


@attack
def over_long_name(folder: Path) -> Path:
    return folder / ("a" * 5000 + ".csv")


@attack
def name_with_a_null(folder: Path) -> Path:
    return folder / "log\0.csv"


@attack
def unreadable_file(folder: Path) -> Path:
    path = write_sidecar(folder / "log.csv")
    path.write_text(csv_text())
    path.chmod(0)
    return path


@attack
def skip_rows_without_end(folder: Path) -> Path:
    (folder / "log.csv").write_text(csv_text())
    return write_sidecar(folder / "log.csv", SIDECAR + "skip_rows = 100000000\n")


@attack
def line_of_a_gigabyte(folder: Path) -> Path:
    with (folder / "log.csv").open("wb") as file:
        file.write(b"t,q1,q2,tau1,tau2\n")
        file.truncate(2**30)
    return write_sidecar(folder / "log.csv")


@attack
def half_a_million_columns(folder: Path) -> Path:
    (folder / "log.csv").write_text(",".join(f"c{k}" for k in range(500_000)) + "\n" + ",".join(["0"] * 500_000) + "\n")
    return write_sidecar(folder / "log.csv")


@attack
def the_same_name_half_a_million_times(folder: Path) -> Path:
    (folder / "log.csv").write_text("t," * 500_000 + "q1\n")
    return write_sidecar(folder / "log.csv")


@attack
def cell_of_200_000_characters(folder: Path) -> Path:
    (folder / "log.csv").write_text(f't,q1,q2,tau1,tau2\n"{"1" * 200_000}",0,0,0,0\n')
    return write_sidecar(folder / "log.csv")


@attack
def quotes_that_do_not_end(folder: Path) -> Path:
    (folder / "log.csv").write_text('t,q1,q2,tau1,tau2\n"0,0,0,0,0\n' + "0,0,0,0,0\n" * 100)
    return write_sidecar(folder / "log.csv")


@attack
def binary_as_csv(folder: Path) -> Path:
    (folder / "log.csv").write_bytes(np.random.default_rng(0).bytes(100_000))
    return write_sidecar(folder / "log.csv")


@attack
def sidecar_with_a_key_of_20_000_parts(folder: Path) -> Path:
    (folder / "log.csv").write_text(csv_text())
    return write_sidecar(folder / "log.csv", "a." * 20_000 + "a = 1\n")


@attack
def sidecar_of_nested_brackets(folder: Path) -> Path:
    (folder / "log.csv").write_text(csv_text())
    return write_sidecar(folder / "log.csv", "gears = " + "[" * 5000)


@attack
def sidecar_of_40_megabytes(folder: Path) -> Path:
    (folder / "log.csv").write_text(csv_text())
    return write_sidecar(folder / "log.csv", f'topic = "{"a" * 40_000_000}"\n')


@attack
def sidecar_with_an_integer_of_5000_digits(folder: Path) -> Path:
    (folder / "log.csv").write_text(csv_text())
    return write_sidecar(folder / "log.csv", SIDECAR + f"rate_hz = {'9' * 5000}\n")


def npz(folder: Path, header: dict[str, str]) -> Path:
    """An NPZ whose headers are as given, over the bytes of a good one."""
    path = write_sidecar(folder / "log.npz", ARRAYS)
    with zipfile.ZipFile(path, "w") as file:
        for name, values in arrays().items():
            content = io.BytesIO()
            np.lib.format.write_array(content, values)
            data = content.getvalue()
            if name in header:
                text = header[name].encode()
                text += b" " * (-(len(text) + 11) % 64) + b"\n"
                data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + values.tobytes()
            file.writestr(f"{name}.npy", data)
    return path


@attack
def npz_header_of_seven_terabytes(folder: Path) -> Path:
    return npz(folder, {"q": "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1), }"})


@attack
def npz_header_that_does_not_parse(folder: Path) -> Path:
    return npz(folder, {"q": "{'descr': '<f8', 'fortran_order': False, 'shape': ((((((((, }"})


@attack
def npz_header_of_negative_shape(folder: Path) -> Path:
    return npz(folder, {"q": "{'descr': '<f8', 'fortran_order': False, 'shape': (-5, 2), }"})


@attack
def npz_of_objects(folder: Path) -> Path:
    return npz(folder, {"q": "{'descr': '|O', 'fortran_order': False, 'shape': (5, 2), }"})


@attack
def npz_of_four_gigabytes_of_zeros(folder: Path) -> Path:
    path = write_sidecar(folder / "bomb.npz", ARRAYS)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (2**28, 2)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name in ("t", "q", "tau"):
            with file.open(f"{name}.npy", "w", force_zip64=True) as stream:
                stream.write(head.getvalue())
                for _ in range(40):
                    stream.write(bytes(2**24))
    return path


@attack
def mat_with_lengths_that_lie(folder: Path) -> Path:
    return write_damaged_mat(folder, lambda data: data[:132] + struct.pack("<I", 2**31 - 1) + data[136:])


@attack
def mat_cut_in_the_middle(folder: Path) -> Path:
    return write_damaged_mat(folder, lambda data: data[: len(data) // 2])


@attack
def mat_of_a_shape_that_overflows(folder: Path) -> Path:
    return write_damaged_mat(
        folder, lambda data: data.replace(struct.pack("<ii", 400, 2), struct.pack("<ii", 2**30, 2**30))
    )


def write_damaged_mat(folder: Path, change: Callable[[bytes], bytes]) -> Path:
    from scipy.io import savemat

    path = write_sidecar(folder / "log.mat", ARRAYS)
    content = io.BytesIO()
    savemat(content, arrays())
    path.write_bytes(change(content.getvalue()))
    return path


@attack
def mat_that_expands_to_two_gigabytes(folder: Path) -> Path:
    path = write_sidecar(folder / "log.mat", ARRAYS)
    packer = zlib.compressobj(1)
    packed = packer.compress(struct.pack("<II", 14, 2**31))
    packed += b"".join(packer.compress(bytes(2**24)) for _ in range(64)) + packer.flush()
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    path.write_bytes(header + struct.pack("<II", 15, len(packed)) + packed)
    return path


@attack
def hdf5_that_declares_ten_billion_rows(folder: Path) -> Path:
    import h5py

    path = write_sidecar(folder / "log.h5", ARRAYS)
    with h5py.File(path, "w") as file:
        file.create_dataset("t", (10**10,), "f8", chunks=(2**16,))
        for name in ("q", "tau"):
            file.create_dataset(name, (10**10, 2), "f8", chunks=(2**16, 2))
    return path


@attack
def hdf5_that_reads_a_device(folder: Path) -> Path:
    import h5py

    path = write_sidecar(folder / "log.h5", ARRAYS)
    with h5py.File(path, "w") as file:
        for name, shape in (("t", (1000,)), ("q", (1000, 2)), ("tau", (1000, 2))):
            file.create_dataset(name, shape, "f8", external=[("/dev/zero", 0, 8 * int(np.prod(shape)))])
    return path


@attack
def parquet_of_ten_billion_equal_rows(folder: Path) -> Path:
    import polars as pl

    path = write_sidecar(folder / "log.parquet")
    zero = pl.repeat(0.0, 4_000_000, eager=True)
    pl.DataFrame(dict.fromkeys(columns(), zero)).write_parquet(path, row_group_size=4_000_000)
    return path


@attack
def bag_whose_messages_never_end(folder: Path) -> Path:
    path = folder / "bag.db3"
    with sqlite3.connect(path) as base:
        base.execute("create table topics (id integer, name text, type text, serialization_format text)")
        base.execute("insert into topics values (1, '/joint_states', 'sensor_msgs/msg/JointState', 'cdr')")
        endless = "with recursive n(k) as (select 1 union all select k + 1 from n) "
        base.execute(
            f"create view messages as {endless} select k as id, 1 as topic_id, k as timestamp, '' as data from n"
        )
    base.close()
    return path


@attack
def bag_of_zeros(folder: Path) -> Path:
    (folder / "bag.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(10_000))
    return folder / "bag.mcap"


@attack
def bag_with_a_chunk_of_a_gigabyte(folder: Path) -> Path:
    import zstandard

    packer = zstandard.ZstdCompressor(level=1).compressobj(size=2**30)
    packed = b"".join(packer.compress(bytes(2**24)) for _ in range(64)) + packer.flush()
    chunk = struct.pack("<QQQII", 0, 1, 2**30, 0, 4) + b"zstd" + struct.pack("<Q", len(packed)) + packed
    header = struct.pack("<II", 0, 0)
    path = folder / "bag.mcap"
    records = struct.pack("<BQ", 1, len(header)) + header + struct.pack("<BQ", 6, len(chunk)) + chunk
    end = struct.pack("<BQI", 15, 4, 0) + struct.pack("<BQQQI", 2, 20, 0, 0, 0)
    path.write_bytes(b"\x89MCAP0\r\n" + records + end + b"\x89MCAP0\r\n")
    return path
