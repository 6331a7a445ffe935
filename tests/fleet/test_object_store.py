"""Logs in an object store are read in blocks like files; messages contain no credentials."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from raising import raises

import mindyn
from mindyn.foundation.errors import Code
from mindyn.logs.locations import expand_locations, list_matching, parse_location
from mindyn.logs.log_errors import LogError

SIDECAR = """
side = "joint"
columns = { time = "t", position = "q{i}", torque = "tau{i}" }
units = { time = "s", position = "rad", torque = "N m" }
"""


@pytest.fixture(scope="module")
def arm() -> mindyn.Robot:
    return mindyn.load_robot("planar2")


@pytest.fixture(scope="module")
def both(store, tmp_path_factory) -> Path:
    """A folder whose logs the bucket has too, under `arm 1/`; one sidecar for all."""
    folder = tmp_path_factory.mktemp("both")
    (folder / "logs.toml").write_text(SIDECAR)
    for k in range(2):
        t = np.arange(5000) / 500
        q = np.column_stack([np.sin((2 + k) * t), 0.8 * np.sin(3.3 * t)])
        columns = {"t": t, "q1": q[:, 0], "q2": q[:, 1], "tau1": q[:, 1] + 1, "tau2": 2 * q[:, 0]}
        data = BytesIO()
        pl.DataFrame(columns).write_parquet(data, row_group_size=700)
        (folder / f"run {k}.parquet").write_bytes(data.getvalue())
    for path in folder.iterdir():
        store.put_object(Bucket="logs", Key=f"arm 1/{path.name}", Body=path.read_bytes())
    return folder


def test_a_log_in_a_store_reads_as_the_file(both, arm):
    here, there = (mindyn.read_log(item, arm) for item in (both / "run 0.parquet", "s3://logs/arm 1/run 0.parquet"))
    assert len(there) == 5000
    for name in ("time", "q", "tau", "rows"):
        assert getattr(here, name).tobytes() == getattr(there, name).tobytes()
    assert there.sources[0].path == "s3://logs/arm 1/run 0.parquet"
    assert there.sources[0].sha256.startswith("etag:")
    as_url = mindyn.read_log((both / "run 0.parquet").as_uri(), arm)
    assert as_url.q.tobytes() == here.q.tobytes()
    assert as_url.sources == here.sources


def test_a_scan_of_a_store_keeps_to_its_chunks(both, arm):
    scan = mindyn.scan_log("s3://logs/arm 1/run 1.parquet", arm, chunk_rows=1000)
    chunks = list(scan)
    assert max(map(len, chunks)) <= 1000
    whole = mindyn.read_log(both / "run 1.parquet", arm)
    assert np.concatenate([chunk.tau for chunk in chunks]).tobytes() == whole.tau.tobytes()


def test_patterns_name_several(both):
    assert [str(element.place) for element in list_matching("s3://logs/arm */run ?.parquet")] == [
        "s3://logs/arm 1/run 0.parquet",
        "s3://logs/arm 1/run 1.parquet",
    ]
    assert [entry.place for entry in list_matching(f"{both}/run [0].parquet")] == [both / "run 0.parquet"]
    deep = [value for value in list_matching("s3://logs/**/run ?.parquet") if "/arm 1/" in str(value.place)]
    assert len({item.version for item in deep}) == 2
    with raises(LogError, Code.MISSING_FILE, "s3://logs/none/*.parquet"):
        expand_locations(["s3://logs/none/*.parquet"])


def test_missing_or_invalid_objects_raise(both, arm, store):
    with raises(LogError, Code.MISSING_FILE, "s3://logs/arm 1/none.parquet"):
        mindyn.read_log("s3://logs/arm 1/none.parquet", arm)
    with raises(LogError, Code.UNSUPPORTED, "run.csv"):
        mindyn.read_log("s3://logs/arm 1/run.csv", arm)
    store.put_object(Bucket="logs", Key="arm 1/half.parquet", Body=(both / "run 0.parquet").read_bytes()[:3000])
    with raises(LogError, Code.MISSING_FILE, "s3://logs/arm 1/half.parquet"):
        mindyn.read_log("s3://logs/arm 1/half.parquet", arm)
    with raises(LogError, Code.WRONG_TYPE, "s3:/logs/arm 1/run 0.parquet"):
        mindyn.read_log(Path("s3://logs/arm 1/run 0.parquet"), arm)


@pytest.mark.parametrize("url", ["s3://me:hunter2@logs/none.parquet?X-Amz-Signature=hunter2", "s3://hunter2@logs/a"])
@pytest.mark.usefixtures("store")
def test_messages_contain_no_credentials(arm, url):
    assert "hunter2" not in f"{parse_location(url)} {parse_location(url)!r}"
    with raises(LogError, Code.UNREADABLE) as result:
        mindyn.read_log(url, arm)
    assert "hunter2" not in str(result.value)
