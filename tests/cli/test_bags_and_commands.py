"""A bag is a folder: commands read it as one log, and write nothing into it."""

from __future__ import annotations

import json

import pytest
from cli.program import mindyn_program
from logs.every_format import planar_motion, write_recording

import mindyn
from mindyn.logs.log import SourceFile, group_sources


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a folder with a bag and a run that was identified from it."""
    folder = tmp_path_factory.mktemp("bags")
    bag = write_recording(folder, "rosbag2 folder", planar_motion(1500))
    ended = mindyn_program("identify", "planar2", bag, "--hold-out", 0.3, "--no-report", "--out", folder / "model")
    assert ended.code == 0, ended.err
    return folder, bag


def test_start_writes_nothing_into_a_bag(run):
    _, bag = run
    assert bag.is_dir()
    before = sorted(bag.iterdir())
    done = json.loads(mindyn_program("start", "planar2", bag, "--json").out)
    assert done["run"] == f"{bag}_run"
    assert sorted(bag.iterdir()) == before


def test_errors_before_and_after_a_projection_are_those_of_the_bag(run):
    folder, bag = run
    words = ("export", folder / "model", "--to", "toml", "--out", folder / "arm.toml", "--feasible", "--json")
    ended = mindyn_program(*words)
    assert ended.code == 0, ended.err
    errors = json.loads(ended.out)["errors"]
    log = mindyn.read_log(bag, mindyn.load_robot("planar2"))
    estimate = mindyn.load_estimate(folder / "model" / "estimate.json")
    held_out = mindyn.validate(estimate, log.take(slice(round(0.7 * len(log)), len(log)))).error.total
    assert errors["held-out"]["before"] == pytest.approx(held_out, rel=1e-9)


def test_view_and_contact_find_the_bag_of_a_run(run):
    folder, bag = run
    ended = mindyn_program("view", "planar2", folder / "model", "--no-open", "--out", folder / "view.html")
    assert ended.code == 0, ended.err
    ended = mindyn_program("contact", folder / "model", bag)
    assert ended.code == 0, ended.err


def test_sources_are_grouped_by_folder_only_if_all_its_files_are_given(tmp_path):
    files = [tmp_path / "bag" / name for name in ("a.mcap", "b.mcap", "metadata.yaml")]
    files[0].parent.mkdir()
    for file in files:
        file.touch()
    sources = [SourceFile(str(file), str(k)) for k, file in enumerate(files)]
    assert group_sources(sources) == {str(tmp_path / "bag"): sources}
    assert list(group_sources(sources[:2])) == [str(file) for file in files[:2]]


def test_a_run_in_place_of_the_robot_is_named(run):
    folder, _ = run
    ended = mindyn_program("view", folder / "model", "--no-open")
    assert ended.code == 1
    assert f"mindyn view arm.urdf {folder / 'model'}" in " ".join(ended.err.split())
