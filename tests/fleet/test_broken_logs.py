"""Broken, excluded and copied logs of a fleet change nothing but the list of excluded logs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fleets import ARM, SETTINGS, SIDECAR, log_bytes
from raising import raises

import mindyn
from mindyn.applications.fleet.study_fleet import study_fleet
from mindyn.foundation.errors import Code
from mindyn.logs.locations import RemoteFile, remote_error
from mindyn.logs.log_errors import LogError


def write_fleet(folder: Path, robots: int = 2, logs: int = 7) -> Path:
    """More logs than are sampled for the selection of settings, so that the order matters."""
    folder.mkdir()
    (folder / "logs.toml").write_text(SIDECAR)
    for robot in range(robots):
        (folder / f"arm{robot}").mkdir()
        for k in range(logs):
            (folder / f"arm{robot}" / f"run{k}.parquet").write_bytes(log_bytes((robot, k), rows=300))
    return folder


def study(folder: Path, out: Path, **more: object) -> mindyn.FleetStudy:
    return study_fleet(ARM, f"{folder}/{{robot_id}}/*.parquet", out, **more)


def test_excluded_copies_and_broken_logs_do_not_change_the_selected_settings(tmp_path):
    plain, spoiled = write_fleet(tmp_path / "plain"), write_fleet(tmp_path / "spoiled")
    whole = log_bytes((1, 1), rows=300)
    added = {
        "a_copy": (spoiled / "arm0" / "run0.parquet").read_bytes(),
        "a_cut": whole[: len(whole) // 2],
        "a_text": b"not a log",
        "b_empty": b"",
        "c_other": log_bytes((8, 8), rows=300, friction=0.0),
    }
    for name, data in added.items():
        (spoiled / "arm0" / f"{name}.parquet").write_bytes(data)
    (spoiled / "arm1" / "z_copy.parquet").write_bytes((spoiled / "arm1" / "run3.parquet").read_bytes())
    expected = study(plain, tmp_path / "out1")
    result = study(spoiled, tmp_path / "out2", exclude_logs=["*c_other*"])
    assert (tmp_path / "out1" / "fleet.json").read_text() == (tmp_path / "out2" / "fleet.json").read_text()
    assert result.type.estimate.beta.tobytes() == expected.type.estimate.beta.tobytes()
    names = {Path(log.name).stem for log in result.excluded}
    assert {"a_cut", "a_text", "b_empty", "z_copy"} <= names
    assert result.logs == expected.logs


def test_links_without_a_target_are_excluded_by_name(tmp_path):
    folder = write_fleet(tmp_path / "fleet", robots=2, logs=3)
    (folder / "arm0" / "gone.parquet").symlink_to(folder / "nowhere.parquet")
    (folder / "arm0" / "loop.parquet").symlink_to(folder / "arm0" / "pool.parquet")
    (folder / "arm0" / "pool.parquet").symlink_to(folder / "arm0" / "loop.parquet")
    result = study(folder, tmp_path / "out", settings=SETTINGS)
    assert {Path(log.name).name for log in result.excluded} == {"gone.parquet", "loop.parquet", "pool.parquet"}
    assert result.logs == 6


def test_a_broken_shared_sidecar_excludes_only_its_logs(tmp_path):
    folder = write_fleet(tmp_path / "fleet", robots=2, logs=3)
    (folder / "arm1" / "logs.toml").write_text("columns = {")
    result = study(folder, tmp_path / "out", settings=SETTINGS)
    assert {Path(log.name).parent.name for log in result.excluded} == {"arm1"}
    (folder / "logs.toml").write_text("columns = {")
    with raises(LogError, Code.WRONG_FORMAT):
        study(folder, tmp_path / "other", settings=SETTINGS)


class Cutter(BaseHTTPRequestHandler):
    """Pass requests on to a store, and end the connection in the middle of every object whose name has `cut`."""

    protocol_version = "HTTP/1.1"
    store = ""

    def forward(self) -> None:
        connection = HTTPConnection(self.store)
        connection.request(self.command, self.path, headers=dict(self.headers))
        answer = connection.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        is_cut = self.command == "GET" and "cut" in urlsplit(self.path).path
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if is_cut else body)
        self.close_connection = is_cut

    do_GET = do_HEAD = forward

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def cutting_store(store, monkeypatch) -> Iterator[object]:
    """The store behind a server that cuts objects; s3fs keeps file systems with the address of their first use."""
    file_system = pytest.importorskip("s3fs").S3FileSystem
    file_system.clear_instance_cache()
    Cutter.store = urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    server = ThreadingHTTPServer(("127.0.0.1", 0), Cutter)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        file_system.clear_instance_cache()


def test_objects_whose_bodies_end_early_do_not_stop_the_fleet(cutting_store, tmp_path, monkeypatch):
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    for name in ("logs.toml", "cut/logs.toml"):
        cutting_store.put_object(Bucket="logs", Key=f"early/{name}", Body=SIDECAR.encode())
    whole = [f"arm{robot}/run{k}" for robot in range(2) for k in range(3)]
    for k, name in enumerate((*whole, "arm1/cut", "cut/run0")):
        cutting_store.put_object(Bucket="logs", Key=f"early/{name}.parquet", Body=log_bytes(k, rows=300))
    result = study_fleet(ARM, "s3://logs/early/{robot_id}/*.parquet", tmp_path / "out")
    assert [log.name for log in result.excluded] == [
        "s3://logs/early/arm1/cut.parquet",
        "s3://logs/early/cut/run0.parquet",
    ]
    assert not [log for log in result.excluded if "redential" in log.reason]
    assert result.logs == len(whole)


@pytest.mark.parametrize(
    ("error", "is_denied"),
    [
        (PermissionError(13, "Access Denied"), True),
        (RuntimeError("ClientError: An error occurred (403) when calling HeadObject: Forbidden"), True),
        (OSError("HTTP status client error (401 Unauthorized) for url"), True),
        (type("NoCredentialsError", (Exception,), {})("Unable to locate credentials"), True),
        (RuntimeError("Response payload is not completed: 403 of 5120 bytes"), False),
        (EOFError("connection ended after 401 bytes"), False),
        (TimeoutError("no answer"), False),
        (FileNotFoundError(2, "No such file"), False),
    ],
)
def test_credentials_are_named_only_if_the_store_rejects_them(error, is_denied):
    hint = remote_error(RemoteFile("s3://logs/one.parquet"), error).hint
    assert hint
    assert ("credentials" in hint) == is_denied
