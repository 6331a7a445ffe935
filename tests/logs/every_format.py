"""One recording in every format that mindyn reads, each with the sidecar that states its columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.io import savemat

import mindyn

STEP_NS = 7_812_500
"""1/128 s: every format stores multiples of it exactly, as seconds and as nanoseconds."""
JOINT_STATE = "sensor_msgs/msg/JointState"
UNITS = {"time": "s", "position": "rad", "velocity": "rad/s", "torque": "N m", "motor_position": "rad"}


@dataclass(frozen=True)
class Recording:
    """Signals (N, n) of joints at multiples of STEP_NS."""

    joints: tuple[str, ...]
    signals: Mapping[str, np.ndarray]

    @property
    def rows(self) -> int:
        return len(self.signals["position"])

    @property
    def time(self) -> np.ndarray:
        return np.arange(self.rows) * (STEP_NS * 2.0**-9 / 5**9)  # exact: STEP_NS = 5^9 * 4, 10^9 = 5^9 * 2^9

    def columns(self) -> dict[str, np.ndarray]:
        names = {
            f"{joint}.{signal}": a[:, k] for signal, a in self.signals.items() for k, joint in enumerate(self.joints)
        }
        return {"time": self.time, **names}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"time": self.time, **self.signals}


def write_sidecar(path: Path, recording: Recording, pattern: str | None) -> None:
    """States columns by a pattern with SIGNAL in it; None: the format itself does."""
    lines = ['side = "joint"']
    if pattern is not None:
        columns = {signal: pattern.replace("SIGNAL", signal) for signal in recording.signals}
        for table, entries in (
            ("columns", {"time": "time", **columns}),
            ("units", {k: UNITS[k] for k in ("time", *columns)}),
        ):
            lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in entries.items())]
        if "{joint}" not in pattern:
            lines.insert(0, f"joints = {json.dumps(recording.joints)}")
    path.with_name(path.name + ".toml").write_text("\n".join(lines) + "\n")


def _text(separator: str, decimal: str = ".") -> Callable[[Path, Recording], None]:
    def write(path: Path, recording: Recording) -> None:
        columns = recording.columns()
        rows = np.column_stack(list(columns.values())).tolist()
        lines = [separator.join(repr(value).replace(".", decimal) for value in row) for row in rows]
        path.write_text("\n".join([separator.join(columns), *lines]) + "\n")

    return write


def _parquet(path: Path, recording: Recording) -> None:
    pl.DataFrame(recording.columns()).write_parquet(path, row_group_size=100)


def _parquet_of_lists(path: Path, recording: Recording) -> None:
    pl.DataFrame({name: list(a) if a.ndim == 2 else a for name, a in recording.arrays().items()}).write_parquet(path)


def _json(path: Path, recording: Recording) -> None:
    columns = recording.columns()
    rows = np.column_stack(list(columns.values())).tolist()
    path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))


def _json_lists(path: Path, recording: Recording) -> None:
    arrays = {name: a.tolist() for name, a in recording.arrays().items()}
    path.write_text(
        "".join(json.dumps({name: a[k] for name, a in arrays.items()}) + "\n" for k in range(recording.rows))
    )


def _npz(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path, Recording], None]:
    return lambda path, recording: np.savez(path, **{name: change(a) for name, a in recording.arrays().items()})


def _hdf5(change: Callable[[np.ndarray], np.ndarray], **options: object) -> Callable[[Path, Recording], None]:
    def write(path: Path, recording: Recording) -> None:
        h5py = pytest.importorskip("h5py")
        head = b"MATLAB 7.3 MAT-file" if path.suffix == ".mat" else b""
        with h5py.File(path, "w", userblock_size=512 if head else 0) as file:
            for name, array in recording.arrays().items():
                file.create_dataset(name, data=change(array), **options)
        with path.open("r+b") as stream:
            stream.write(head)

    return write


def _mat(**options: object) -> Callable[[Path, Recording], None]:
    return lambda path, recording: savemat(path, recording.arrays(), **options)


def _messages(recording: Recording):
    rosbags = pytest.importorskip("rosbags.typesys")
    store = rosbags.get_typestore(rosbags.Stores.ROS2_HUMBLE)
    types, signals = store.types, recording.signals
    empty = np.zeros((recording.rows, 0))
    for k in range(recording.rows):
        seconds, rest = divmod(k * STEP_NS, 10**9)
        stamp = types["builtin_interfaces/msg/Time"](sec=seconds, nanosec=rest)
        header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="world")
        values = [signals.get(name, empty)[k] for name in ("position", "velocity", "torque")]
        message = types[JOINT_STATE](header, list(recording.joints), *values)
        yield k * STEP_NS, store, store.serialize_cdr(message, JOINT_STATE)


def _mcap(path: Path, recording: Recording) -> None:
    writing = pytest.importorskip("mcap.writer")
    with path.open("wb") as stream:
        writer = writing.Writer(stream)
        writer.start()
        channel = writer.register_channel("/joint_states", "cdr", writer.register_schema(JOINT_STATE, "ros2msg", b""))
        for stamp, _, data in _messages(recording):
            writer.add_message(channel, log_time=stamp, data=bytes(data), publish_time=stamp)
        writer.finish()


def _bag(plugin: str) -> Callable[[Path, Recording], None]:
    def write(path: Path, recording: Recording) -> None:
        rosbag2 = pytest.importorskip("rosbags.rosbag2")
        with rosbag2.Writer(path, version=9, storage_plugin=rosbag2.StoragePlugin[plugin]) as writer:
            connection = None
            for stamp, store, data in _messages(recording):
                connection = connection or writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
                writer.write(connection, stamp, data)

    return write


def _database(path: Path, recording: Recording) -> None:
    folder = path.with_suffix("")
    _bag("SQLITE3")(folder, recording)
    next(folder.glob("*.db3")).rename(path)


BY_JOINT, BY_ARRAY = "{joint}.SIGNAL", "SIGNAL"
FORMATS: Mapping[str, tuple[str, Callable[[Path, Recording], None], str | None]] = {
    "csv": (".csv", _text(","), BY_JOINT),
    "tsv": (".tsv", _text("\t"), BY_JOINT),
    "semicolons": (".csv", _text(";"), BY_JOINT),
    "decimal commas": (".txt", _text(";", ","), BY_JOINT),
    "json lines": (".jsonl", _json, BY_JOINT),
    "json lists": (".ndjson", _json_lists, BY_ARRAY),
    "parquet": (".parquet", _parquet, BY_JOINT),
    "parquet lists": (".parquet", _parquet_of_lists, BY_ARRAY),
    "npz": (".npz", _npz(np.ascontiguousarray), BY_ARRAY),
    "npz by columns": (".npz", _npz(np.asfortranarray), BY_ARRAY),
    "npz transposed": (".npz", _npz(np.transpose), BY_ARRAY),
    "npz big-endian": (".npz", _npz(lambda a: a.astype(">f8")), BY_ARRAY),
    "hdf5": (".h5", _hdf5(np.ascontiguousarray), BY_ARRAY),
    "hdf5 transposed": (".hdf5", _hdf5(np.transpose), BY_ARRAY),
    "hdf5 chunks": (".h5", _hdf5(np.ascontiguousarray, chunks=True, compression="gzip"), BY_ARRAY),
    "hdf5 big-endian": (".h5", _hdf5(lambda a: a.astype(">f8")), BY_ARRAY),
    "mat 4": (".mat", _mat(format="4"), BY_ARRAY),
    "mat 5": (".mat", _mat(), BY_ARRAY),
    "mat 7": (".mat", _mat(do_compression=True), BY_ARRAY),
    "mat 7.3": (".mat", _hdf5(np.transpose), BY_ARRAY),
    "mcap": (".mcap", _mcap, None),
    "rosbag2 file": (".db3", _database, None),
    "rosbag2 folder": ("", _bag("SQLITE3"), None),
    "rosbag2 of mcap": ("", _bag("MCAP"), None),
}
"""Format -> suffix, writer, and how its sidecar names columns."""


def write_recording(folder: Path, form: str, recording: Recording, name: str = "run") -> Path:
    """The path of the recording, written in a format with its sidecar."""
    suffix, write, pattern = FORMATS[form]
    path = folder / f"{name}{suffix}"
    write(path, recording)
    write_sidecar(path, recording, pattern)
    return path


def planar_motion(rows: int, seed: int = 0, *, payload: float = 0.0) -> Recording:
    """A two-joint arm on a sum of sines: exact speeds, torques with 2 % of noise; `payload` in kg at its tip."""
    robot = mindyn.load_robot("planar2")
    if payload:
        robot = robot.with_payload(mass=payload, com=(0.1, 0.05, 0.0), inertia=np.eye(3) * 0.01 * payload)
    rng = np.random.default_rng(seed)
    w, a = rng.uniform(2.0, 12.0, (2, 4)), np.array([0.5, 0.25, 0.1, 0.1])
    phase = np.arange(rows)[:, None, None] / 128 * w + rng.uniform(0, 6, (2, 4))
    q, qd = (a * np.sin(phase)).sum(axis=2), (a * w * np.cos(phase)).sum(axis=2)
    tau = mindyn.compile_model(robot, with_drives=True).inverse_dynamics(q, qd, -(a * w**2 * np.sin(phase)).sum(axis=2))
    tau += 0.02 * tau.std(axis=0) * rng.normal(size=tau.shape)
    return Recording(robot.joint_names, {"position": q, "velocity": qd, "torque": tau})
