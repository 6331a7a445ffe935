"""Paths, URLs and patterns name the files of logs, and no message shows a secret of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from raising import raises

from mindyn.foundation.errors import Code
from mindyn.logs.locations import RemoteFile, list_matching, parse_location
from mindyn.logs.log_errors import LogError


def test_places_have_names_and_neighbours(tmp_path):
    place = RemoteFile("s3://user:secret@bucket/runs/one.parquet?key=1")
    assert (place.name, place.stem, place.suffix) == ("one.parquet", "one", ".parquet")
    assert place.with_name("two.toml").url == "s3://user:secret@bucket/runs/two.toml?key=1"
    assert (place.parent / "three").name == "three"
    assert "secret" not in str(place)
    assert "key" not in str(place)
    assert parse_location(".").name  # a folder by its own name
    assert parse_location("a/b.csv").as_posix() == "a/b.csv"
    assert parse_location("file:///a/b%20c.csv").as_posix() == "/a/b c.csv"
    for name in ("b.csv", "a.csv", "c.txt"):
        (tmp_path / name).write_text("12345")
    matching = list_matching(f"{tmp_path}/*.csv")
    assert [(item.place.name, item.size) for item in matching] == [("a.csv", 5), ("b.csv", 5)]
    assert [item.place.name for item in list_matching(f"{tmp_path}/c.txt")] == ["c.txt"]
    assert list_matching(f"{tmp_path}/d.txt") == []


def test_objects_of_a_store_are_listed_by_their_own_urls():
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.pipe("/runs/one.csv", b"12")
    store.pipe("/runs/two.csv", b"123")
    matching = list_matching("memory://runs/*.csv")
    assert [item.place.read_text() for item in matching] == ["12", "123"]
    assert [item.size for item in matching] == [2, 3]
    assert parse_location("memory://runs/one.csv").exists()
    assert not parse_location("memory://runs/none.csv").exists()
    assert list_matching("memory://runs/none.csv") == []
    assert list_matching("memory://runs") == []  # a folder is not a log
    store.pipe("/user:word@runs/one.csv", b"1")
    (listed,) = list_matching("memory://user:word@runs/one.csv")
    assert listed.place == parse_location("memory://user:word@runs/one.csv")
    with parse_location("memory://runs/one.csv").open() as stream:
        assert stream.read() == b"12"


def test_places_are_paths_unless_they_are_urls():
    assert parse_location("runs/run.csv") == Path("runs/run.csv")
    assert parse_location(Path("runs/run.csv")) == Path("runs/run.csv")
    assert parse_location("file:///runs/run.csv") == Path("/runs/run.csv")
    with raises(LogError, code=Code.WRONG_TYPE, subject="s3:/bucket/run.parquet"):
        parse_location(Path("s3://bucket/run.parquet"))
