"""Hostile logs are rejected by an error of mindyn; `make study NAME=attacks` replays them within limits."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from closeness import assert_close
from raising import raises
from scipy.io import loadmat, savemat

import mindyn
from mindyn.foundation.errors import Code, MindynError
from mindyn.foundation.safe_reading import parse_toml
from mindyn.logs.formats.formats import open_table
from mindyn.logs.formats.mat_arrays import read_mat
from mindyn.logs.metadata import LogMetadata

sys.path.insert(0, str(Path(__file__).parents[1] / "attacks"))
from hostile_logs import ARRAYS, SIDECAR, arrays, columns, csv_text, write_sidecar
from hostile_structures import LOGS

ARM = mindyn.load_robot("planar2")
SLOW_TO_MAKE = (
    *("npz_of_four_gigabytes_of_zeros", "npz_header_of_four_gigabytes", "npz_of_a_million_entries"),
    *("mat_that_expands_to_two_gigabytes", "mat_of_a_hundred_million_axes", "mat_of_a_hundred_million_fields"),
    *("mat_of_a_long_name", "hdf5_chunk_that_expands_to_four_gigabytes", "hdf5_chunk_larger_than_its_dataset"),
    *("bag_with_a_chunk_of_a_gigabyte", "bag_with_a_chunk_of_a_gigabyte_after_its_footer"),
    *("bag_with_a_chunk_inside_an_attachment", "bag_whose_summary_lies_in_an_attachment"),
    *("bag_whose_frame_does_not_say_its_size", "bag_that_repeats_its_topic", "csv_of_rows_without_cells"),
    *("json_lines_of_sparse_rows", "parquet_of_ten_billion_equal_rows", "parquet_of_pages_without_end"),
    *("npz_packed_by_bzip2", "npz_of_bytes", "mat_of_bytes", "hdf5_of_bytes", "parquet_footer_of_empty_structs"),
    *("hdf5_of_groups_nested_30_000_deep", "mat_7_3_of_groups_nested_30_000_deep", "hdf5_of_a_chunk_for_each_number"),
    *("bag_of_eight_million_empty_messages", "indexed_bag_of_eight_million_empty_messages"),
    *(name for name in LOGS if name.endswith("within_the_limit")),
)
NEEDS = {"hdf5": "h5py", "bag_of_chunks": "mcap", "bag_with": "mcap", "bag_of_zeros": "mcap"}
FOR_ROOT = ("unreadable_file",)


@pytest.mark.parametrize("name", [name for name in LOGS if name not in SLOW_TO_MAKE])
def test_a_hostile_log_is_rejected_by_our_own_error(tmp_path, name, capfd):
    for start, package in NEEDS.items():
        if name.startswith(start):
            pytest.importorskip(package)
    if name in FOR_ROOT and os.geteuid() == 0:
        pytest.skip("root may read everything")
    with raises(MindynError, tuple(set(Code) - {Code.INTERNAL})) as rejected:  # any, but never a bug
        mindyn.read_log(LOGS[name](tmp_path), ARM)
    assert len(str(rejected.value)) < 2000
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "text", ["a" * 2**20, "a " * 2**19, '"' * 2**20, "'a" * 2**19, "a\t." * 2**18, "1.5, " * 2**18]
)
def test_looking_for_bombs_takes_time_in_proportion(text):
    start = process_time()
    with suppress(MindynError):
        parse_toml(f"x = [{text}", "text", MindynError)
    whole = process_time() - start
    start = process_time()
    with suppress(MindynError):
        parse_toml(f"x = [{text[: len(text) // 8]}", "text", MindynError)
    assert whole < 30 * (process_time() - start) + 0.5


def test_limits_on_sizes_can_be_lifted(tmp_path, monkeypatch):
    path = write_sidecar(tmp_path / "log.csv", f"{SIDECAR}topic = {'a' * 2**20!r}\n")
    path.write_text(csv_text())
    with raises(MindynError, code=Code.TOO_LARGE):
        mindyn.read_log(path, ARM)
    monkeypatch.setenv("MINDYN_LIMITS", "off")
    assert len(mindyn.read_log(path, ARM)) == 400


CONTENT = {
    "q": np.random.default_rng(0).standard_normal((100, 6)),
    "t": np.arange(100.0),
    "counts": np.random.default_rng(1).integers(-5, 5, (3, 7)).astype(np.int16),
    "on": np.array([[True, False, True]]),
    "nested": {"a": np.arange(5.0), "deeper": {"x": np.arange(12.0).reshape(3, 4), "text": "words"}, "scalar": 3.0},
    "text": "words",
    "cells": np.array([1, "x", np.arange(3)], dtype=object),
    "complex": np.arange(3) * 1j,
    "cube": np.random.default_rng(2).standard_normal((2, 3, 4)),
    "stamps": np.arange(5, dtype=np.uint64) + 2**60,
    "records": np.array([(1, 2.0), (3, 4.0)], dtype=[("u", "i4"), ("v", "f8")]),
}


def leaves(values, prefix=""):
    result = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
            result[prefix + name] = value
        elif hasattr(value, "_fieldnames"):
            members = {field: getattr(value, field) for field in value._fieldnames}
            result |= leaves(members, f"{prefix}{name}.")
    return result


@pytest.mark.parametrize("how", [{}, {"do_compression": True}, {"format": "4"}], ids=["plain", "packed", "version 4"])
def test_matlab_files_hold_what_scipy_reads_in_them(tmp_path, how):
    held = {name: CONTENT[name] for name in ("q", "t", "counts", "text")} if "format" in how else CONTENT
    savemat(tmp_path / "log.mat", held, **how)
    by_scipy = loadmat(tmp_path / "log.mat", struct_as_record=False, squeeze_me=True)
    expected = leaves({name: value for name, value in by_scipy.items() if not name.startswith("__")})
    assert expected.pop("cube", np.zeros((1, 1, 1))).ndim == 3  # logs are vectors and matrices
    mat = read_mat(tmp_path / "log.mat")
    assert mat.keys() == expected.keys()
    for name, values in expected.items():
        assert mat[name].dtype.kind == values.dtype.kind
        assert np.array_equal(mat[name], values)


@pytest.mark.parametrize("seed", range(300))
def test_a_damaged_matlab_file_is_read_or_rejected(tmp_path, seed):
    content = io.BytesIO()
    savemat(content, CONTENT, do_compression=bool(seed % 2))
    data, rng = bytearray(content.getvalue()), np.random.default_rng(seed)
    for _ in range(rng.integers(1, 8)):
        data[rng.integers(0, len(data))] = rng.integers(0, 256)
    (tmp_path / "log.mat").write_bytes(data[: rng.integers(0, len(data))] if seed % 5 == 0 else data)
    with suppress(MindynError):
        read_mat(tmp_path / "log.mat")


def test_a_matlab_log_is_read(tmp_path):
    savemat(tmp_path / "log.mat", arrays())
    log = mindyn.read_log(write_sidecar(tmp_path / "log.mat", ARRAYS), ARM)
    assert_close(log.q[:, 0], columns()["q1"], 0.0)


def test_lists_of_json_and_parquet_keep_missing_values(tmp_path):
    import polars as pl

    table = {"t": [0.0, 0.1, 0.2], "q": [[1, 2], None, [3, None]], "tau": [[0.5, 1.5]] * 3}
    frame = pl.DataFrame(table)
    expected = np.array([[1, 2], [np.nan, np.nan], [3, np.nan]])
    for name, write in (("log.jsonl", frame.write_ndjson), ("log.parquet", frame.write_parquet)):
        write(tmp_path / name)
        opened = open_table(tmp_path / name, ARM, LogMetadata())
        (chunk,) = opened.chunks(["q", "tau"], 10)
        assert np.array_equal(chunk["q"], expected, equal_nan=True)
        assert chunk["tau"].shape == (3, 2)


TEXTS_WITHOUT_END = {
    "jsonl": '{"a":' + '\\"' * 2**19,
    "estimate": '{"a":' + '\\"' * 2**19,
    "toml": "a = [" + '\\"' * 2**18,
}


@pytest.mark.parametrize("where", TEXTS_WITHOUT_END)
def test_a_text_that_does_not_end_takes_time_in_proportion(tmp_path, where):
    text, start = TEXTS_WITHOUT_END[where], process_time()
    (tmp_path / "log.jsonl").write_text(text)
    readers = {
        "jsonl": lambda: mindyn.read_log(write_sidecar(tmp_path / "log.jsonl"), ARM),
        "estimate": lambda: mindyn.load_estimate(tmp_path / "log.jsonl"),
        "toml": lambda: parse_toml(text, "text", MindynError),
    }
    with raises(MindynError, (Code.UNREADABLE, Code.WRONG_FORMAT)):
        readers[where]()
    assert process_time() - start < 5
