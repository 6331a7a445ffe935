"""LeRobot datasets of versions 2 and 3 are read in place: `observation.state` is the position, `action` the target."""

from __future__ import annotations

import json

import numpy as np
import polars
import pytest
from raising import raises
from servos import JOINTS, KP, KV, leg_targets, leg_xml

import mindyn
from mindyn.foundation.errors import Code
from mindyn.identification import draft_log
from mindyn.logs import log_from_targets
from mindyn.logs.log_errors import LogError

RATE, ROWS = 50, (120, 80, 100)


@pytest.fixture
def leg(tmp_path):
    """The leg with limits of its joints."""
    text = leg_xml().replace('axis="1 0 0"', 'axis="1 0 0" range="-1 1"')
    (tmp_path / "leg.xml").write_text(text.replace('axis="0 1 0"', 'axis="0 1 0" range="-2.5 2"'))
    return mindyn.load_robot(tmp_path / "leg.xml")


def episodes():
    """Positions and targets of three episodes, rad, with a fourth motor that the leg does not have."""
    rng, result = np.random.default_rng(0), []
    for number, rows in enumerate(ROWS):
        t, target = leg_targets(rows / RATE, RATE, seed=number)
        q = target - 0.05 * rng.standard_normal(target.shape).cumsum(axis=0) / np.sqrt(rows)
        result.append((t, np.column_stack([q, 0 * t]), np.column_stack([target, 0 * t])))
    return result


def write_dataset(folder, version, data, names=None):
    """Write the files of a dataset as LeRobot does: a file for each episode (v2), or several episodes in one (v3)."""
    frames = []
    for number, (t, q, target) in enumerate(data):
        frames.append(
            polars.DataFrame(
                {
                    "observation.state": q.astype(np.float32).tolist(),
                    "action": target.astype(np.float32).tolist(),
                    "timestamp": t.astype(np.float32),
                    "frame_index": np.arange(len(t)),
                    "episode_index": np.full(len(t), number),
                },
                schema_overrides={
                    "observation.state": polars.List(polars.Float32),
                    "action": polars.List(polars.Float32),
                },
            )
        )
    chunk = folder / "data" / "chunk-000"
    chunk.mkdir(parents=True)
    (folder / "meta").mkdir()
    (folder / "videos").mkdir()
    if version.startswith("v2"):
        for number, frame in enumerate(frames):
            frame.write_parquet(chunk / f"episode_{number:06d}.parquet")
    else:
        polars.concat(frames[:2]).write_parquet(chunk / "file-000.parquet")
        frames[2].write_parquet(chunk / "file-001.parquet")
    motors = names or [*(f"{joint}.pos" for joint in JOINTS), "gripper.pos"]
    feature = {"dtype": "float32", "shape": [4], "names": motors if version.startswith("v3") else {"motors": motors}}
    info = {"codebase_version": version, "fps": RATE, "features": {"observation.state": feature, "action": feature}}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    return folder


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v3.0"])
def test_all_episodes_are_segments_of_one_log(tmp_path, leg, version):
    folder = write_dataset(tmp_path / "pick", version, episodes())
    log = mindyn.read_log(folder, leg, units={"position": "rad"}, metadata={"kp": KP.tolist(), "kd": KV.tolist()})
    assert len(log) == sum(ROWS)
    expected = []
    for t, q, target in episodes():
        q, target = q[:, :3].astype(np.float32), target[:, :3].astype(np.float32)
        expected.append(log_from_targets(JOINTS, t, q, target, KP).tau)
    stiff = mindyn.read_log(folder, leg, units={"position": "rad"}, metadata={"kp": KP.tolist()})
    np.testing.assert_allclose(stiff.tau, np.concatenate(expected), rtol=1e-6, atol=1e-6)
    samples = mindyn.condition(leg, log, mindyn.Conditioning(motion_hz=None, edge_s=0.0)).samples
    assert len(np.unique(samples.segments)) == len(ROWS)
    assert len(log.sources) == 1 + len(list(folder.glob("data/*/*.parquet")))


def test_degrees_are_recognised(tmp_path, leg):
    data = [(t, np.degrees(q), np.degrees(target)) for t, q, target in episodes()]
    folder = write_dataset(tmp_path / "pick", "v3.0", data)
    draft = draft_log(folder, leg)
    assert draft.value("units.position") == draft.value("units.target") == "deg"
    assert draft.value("columns.target") == "action"
    assert draft.value("joints") == [*JOINTS, "gripper.pos"]
    assert set(draft.questions) <= {"kp", "kd", "side.position", "gears"}


def test_normalised_positions_are_converted_by_the_limits(tmp_path, leg):
    middle, half = np.array([0.0, -0.25, -0.25, 0.0]), np.array([1.0, 2.25, 2.25, 1.0])
    data = [(t, np.clip(100 * (q - middle) / half, -100, 100), 100 * (x - middle) / half) for t, q, x in episodes()]
    data[0][1][5, 0] = 100.0
    folder = write_dataset(tmp_path / "pick", "v3.0", data)
    draft = draft_log(folder, leg)
    assert "normalised" in draft.toml()
    metadata = {**draft.to_metadata(), "kp": KP.tolist()}
    log = mindyn.read_log(folder, leg, metadata=metadata)
    wanted = np.concatenate([q[:, :3] for _, q, _ in episodes()])
    wanted[5, 0] = 1.0
    np.testing.assert_allclose(log.q, wanted, atol=1e-5)
    np.testing.assert_allclose(log.target, np.concatenate([x[:, :3] for _, _, x in episodes()]), atol=1e-5)


def test_broken_datasets_raise(tmp_path, leg):
    folder = write_dataset(tmp_path / "pick", "v1.6", episodes())
    with raises(LogError, Code.UNSUPPORTED, "pick"):
        mindyn.read_log(folder, leg)
    empty = tmp_path / "empty"
    (empty / "meta").mkdir(parents=True)
    (empty / "meta" / "info.json").write_text('{"codebase_version": "v3.0", "features": []}')
    with raises(LogError, Code.MISSING_FILE, "empty"):
        mindyn.read_log(empty, leg)
    other = write_dataset(tmp_path / "other", "v3.0", episodes(), ["a", "b", "c", "d"])
    with raises(LogError, Code.MISSING_VALUE, "joints"):
        mindyn.read_log(other, leg, units={"position": "rad"}, metadata={"kp": KP.tolist()})
