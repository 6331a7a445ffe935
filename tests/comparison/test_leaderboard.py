"""Recipes of the leaderboard: download, verify, convert; with a local server in the place of the real addresses."""

from __future__ import annotations

import hashlib
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import polars as pl
import pytest
from logs.real_sets import FOLDER, needs_real_data

from leaderboard import sets
from leaderboard.sets import RecipeError, prepare, raw_address, read_manifests
from mindyn import load_robot
from mindyn.applications.comparison.log_sets import read_sets


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, lambda _, file: f"http://127.0.0.1:{server.server_port}/{file['path']}"
        server.shutdown()


@pytest.fixture
def manifest(monkeypatch, server):
    """A set of two text files that are joined, served with the hashes of its manifest."""
    rng = np.random.default_rng(0)
    rows = {
        "time.txt": np.arange(50)[:, None] / 100,
        "q.txt": rng.normal(size=(50, 2)),
        "tau.txt": rng.normal(size=(50, 2)),
    }
    texts = {name: "".join(f"{value:g}\n" for value in table.ravel()).encode() for name, table in rows.items()}
    for name, text in texts.items():
        (server[0] / name).write_bytes(text)
    split = {"train": [{"file": "run.parquet", "rows": [0, 30]}]}
    split["held_out"] = [{"file": "run.parquet", "rows": [30, 50], "score_rows": [32, 48]}]
    entry = {"time": "t", "joints": ["j1", "j2"], "model": "model/x.toml", "splits": {"main": split}}
    entry |= {"position": {"columns": ["q1", "q2"]}, "torque": {"columns": ["tau1", "tau2"]}}
    created = {
        "repository": "https://host/owner/name",
        "commit": "abc",
        "files": [{"path": name, "sha256": hashlib.sha256(text).hexdigest()} for name, text in texts.items()],
        "conversion": {"name": "run.parquet", "stack": {"t": "time.txt", "q": "q.txt", "tau": "tau.txt"}},
        "entry": entry,
    }
    monkeypatch.setattr(sets, "read_manifests", lambda _names=(): {"arm": created})
    return created, rows


def test_files_are_downloaded_verified_and_joined(tmp_path, server, manifest):
    folder = prepare(tmp_path / "out", address_of=server[1])
    table = pl.read_parquet(folder / "arm" / "run.parquet")
    assert table.columns == ["t", "q1", "q2", "tau1", "tau2"]
    assert np.abs(table.select("q1", "q2").to_numpy() - manifest[1]["q.txt"]).max() < 1e-5
    assert list(json.loads((folder / "splits.json").read_text())["sets"]) == ["arm"]


@pytest.mark.usefixtures("manifest")
@pytest.mark.parametrize("damage", [lambda text: text[:-10], lambda text: text.replace(b"0.", b"1.", 1), lambda _: b""])
def test_truncated_and_changed_bytes_are_rejected(tmp_path, server, damage):
    path = server[0] / "q.txt"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RecipeError, match="is not the file of the manifest"):
        prepare(tmp_path / "out", address_of=server[1])
    assert not list((tmp_path / "out").rglob("*.txt"))
    assert not (tmp_path / "out" / "splits.json").exists()


@pytest.mark.usefixtures("manifest")
def test_a_missing_file_is_named(tmp_path, server):
    (server[0] / "tau.txt").unlink()
    with pytest.raises(RecipeError, match=r"tau\.txt cannot be read"):
        prepare(tmp_path / "out", address_of=server[1])


@pytest.mark.usefixtures("manifest")
def test_a_local_folder_replaces_the_download(tmp_path, server):
    """Source files as they are, or the joined table, from which the source files are written again and verified."""
    local = prepare(tmp_path / "local", address_of=server[1])
    for name in ("time.txt", "q.txt", "tau.txt"):
        (server[0] / name).unlink()
        (local / "arm" / name).unlink()
    folder = prepare(tmp_path / "out", local=local)
    assert pl.read_parquet(folder / "arm" / "run.parquet").equals(pl.read_parquet(local / "arm" / "run.parquet"))


@pytest.mark.parametrize("damage", [None, b"0.5", b"9", b"x"])
def test_rows_of_a_text_table_are_cut_and_their_numbers_verified(tmp_path, server, monkeypatch, damage):
    rng = np.random.default_rng(1)
    rows = np.round(np.column_stack([7 + np.arange(40) / 100, rng.normal(size=(40, 6))]), 4)
    text = "".join(",".join(f"{value:.4f}" for value in row) + "\n" for row in rows).encode()
    (server[0] / "run.csv").write_bytes(text if damage is None else text[:-30] + damage + text[-29:])
    numbers = rows[10:40, :4].copy()
    numbers[:, 0] -= 7.1
    entry = {"time": "t", "model": "model/x.toml"}
    entry |= {key: {"columns": [key]} for key in ("position", "velocity", "torque")}
    file = {"path": "run.csv", "name": "run.parquet", "cut": {"start_s": 7.1, "rows": 30}}
    file["sha256"] = hashlib.sha256(np.ascontiguousarray(numbers, "<f8").tobytes()).hexdigest()
    created = {"repository": "https://host/owner/name", "commit": "abc", "files": [file], "entry": entry}
    monkeypatch.setattr(sets, "read_manifests", lambda _names=(): {"arm": created})
    if damage is None:
        local = prepare(tmp_path / "out", address_of=server[1])
        assert np.array_equal(pl.read_parquet(local / "arm" / "run.parquet").to_numpy(), numbers)
        assert prepare(tmp_path / "again", local=local) == tmp_path / "again", "a local table is verified as it is"
    else:
        with pytest.raises(RecipeError, match="changed or truncated"):
            prepare(tmp_path / "out", address_of=server[1])


def test_manifests_are_complete():
    manifests = read_manifests()
    assert len(manifests) == 6
    for name, manifest in manifests.items():
        assert {"title", "robot", "repository", "commit", "licence", "derived_numbers", "files", "entry"} <= set(
            manifest
        )
        assert all(len(file["sha256"]) == 64 for file in manifest["files"])
        assert raw_address(manifest, manifest["files"][0]).count(manifest["commit"]) == 1
        if "model" not in manifest["entry"]:
            robot = load_robot(sets.ROOT / "robots" / f"{name}.toml")
            assert tuple(manifest["entry"]["joints"]) == robot.joint_names
    with pytest.raises(RecipeError, match="no set other"):
        read_manifests(["other"])


@needs_real_data
def test_the_sets_of_a_local_folder_are_those_of_its_own_list(tmp_path):
    """Same rows and numbers as by the folder's own splits.json, to the rounding of a file that was converted there."""
    created = {split.name: split for split in read_sets(prepare(tmp_path, local=FOLDER))}
    for split in read_sets(FOLDER):
        ours = created[split.name]
        for a, b in zip((*ours.training, ours.held_out[0].log), (*split.training, split.held_out[0].log), strict=True):
            assert np.abs(a.q - b.q).max() < 1e-8
            assert np.abs(a.tau - b.tau).max() < 1e-6
        assert [part.rows for part in ours.held_out] == [part.rows for part in split.held_out]
