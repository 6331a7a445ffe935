"""Bad logs get a named error or a reported exclusion; never a silent number."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from closeness import EXACT, assert_close
from messages import messages
from raising import raises
from recordings import NAMES, STATED, UNITS, arm, sines

from mindyn.foundation.errors import Code
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import log_from_arrays
from mindyn.logs.log_errors import LogError
from mindyn.logs.pipeline import condition
from mindyn.logs.read_log import read_log, scan_log

MOTION = sines(1000)


def read(tmp_path, table, **stated):
    pl.DataFrame(table).write_parquet(tmp_path / "run.parquet")
    return read_log(tmp_path / "run.parquet", arm(), metadata={**STATED, **stated})


def change_columns(**columns):
    return {**MOTION.table(), **columns}


def test_rows_with_nan_are_dropped_and_reported(tmp_path):
    tau = MOTION.tau[:, 1].copy()
    tau[400:403] = np.nan
    log = read(tmp_path, change_columns(tau_elbow=tau))
    assert len(log) == 997
    assert (
        "3 of 1000 rows of run.parquet hold NaN, infinity or more than 1e+30: torque of elbow (3); dropped"
        in messages(log)
    )
    created = condition(arm(), log, Conditioning(motion_hz=20.0))
    assert any("gap of 0.008 s after row 399" in note for note in messages(created))
    assert set(created.samples.segments) == {0, 1}
    assert not ({400, 401, 402} & set(created.rows))


def write_log(tmp_path, header, rows):
    (tmp_path / "run.csv").write_text("\n".join([*header, *rows]) + "\n")
    return read_log(tmp_path / "run.csv", arm(), metadata=STATED)


@pytest.mark.parametrize("kind", ["blank after", "trailing ,", "trailing ;", "# and spaces", "# and commas", "#tight"])
def test_headers_and_rows_of_doubtful_csv_files_are_matched(tmp_path, kind):
    separator = {"trailing ;": ";", "# and spaces": " "}.get(kind, ",")
    header, *rows = pl.DataFrame(MOTION.table()).write_csv(separator=separator).splitlines()
    lines = [f"# {header}" if kind.startswith("# ") else f"#{header}" if kind == "#tight" else header]
    end = separator if kind.startswith("trailing") else ""
    log = write_log(tmp_path, [*lines, *(["", "  "] if kind == "blank after" else [])], [row + end for row in rows])
    assert not messages(log)
    assert_close(log.tau, MOTION.tau, EXACT)
    assert_close(log.q, MOTION.q, EXACT)


def test_rows_of_other_lengths_are_known_in_our_words(tmp_path):
    header, *rows = pl.DataFrame(MOTION.table()).write_csv().splitlines()
    with raises(LogError, code=Code.WRONG_SHAPE, subject="run.csv"):
        write_log(tmp_path, [header], [*rows[:5], rows[5] + ",1.0", *rows[6:]])
    with raises(LogError, code=Code.WRONG_SHAPE, subject="run.csv"):
        write_log(tmp_path, [header], [row.rpartition(",")[0] for row in rows])
    numbered = [f"{k},{row}" for k, row in enumerate(rows)]
    numbered[0] = numbered[0].rpartition(",")[0] + ","  # its last cell is missing: the rows do not all end so
    with raises(LogError, code=Code.WRONG_SHAPE, subject="run.csv"):
        write_log(tmp_path, [header], numbered)
    with raises(LogError, code=Code.MISSING_VALUE, subject="run.csv"):
        write_log(tmp_path, ["", "", ""], [])


def test_a_column_of_nan_is_rejected(tmp_path):
    with raises(LogError, code=Code.NOT_FINITE, subject="torque of elbow"):
        read(tmp_path, change_columns(tau_elbow=np.full(1000, np.nan)))


def test_backward_time_is_rejected(tmp_path):
    t = MOTION.t.copy()
    t[500:] -= 0.5
    with raises(LogError, code=Code.INVALID_VALUE, subject="time"):
        read(tmp_path, change_columns(t=t))


def test_repeated_stamps_are_dropped_and_reported(tmp_path):
    t = MOTION.t.copy()
    t[[10, 700]] = t[[9, 699]]
    log = read(tmp_path, change_columns(t=t))
    assert len(log) == 998
    assert "2 of 1000 rows of run.parquet repeat the stamp of the row before; dropped" in messages(log)


def test_stamps_rounded_to_nothing_are_rejected(tmp_path):
    with raises(LogError, code=Code.DUPLICATE, subject="stamps"):
        read(tmp_path, change_columns(t=np.floor(MOTION.t * 100) / 100))


def test_gaps_split_the_log(tmp_path):
    keep = np.r_[0:300, 450:1000]
    log = read(tmp_path, {name: column[keep] for name, column in MOTION.table().items()})
    created = condition(arm(), log, Conditioning(motion_hz=50.0, edge_s=0.1))
    assert any("a gap of 0.302 s after row 299" in note for note in messages(created))
    assert np.array_equal(np.unique(created.samples.segments, return_counts=True)[1], [200, 450])


def test_degrees_read_as_radians_are_reported(tmp_path):
    degrees = {f"q_{name}": np.rad2deg(MOTION.q[:, j]) for j, name in enumerate(NAMES)}
    with raises(LogError, code=Code.WRONG_UNIT, subject="degrees"):
        read(tmp_path, change_columns(**degrees))


def test_millinewtons_read_as_newtons_are_reported(tmp_path):
    large = {f"tau_{name}": 1e3 * MOTION.tau[:, j] for j, name in enumerate(NAMES)}
    with raises(LogError, code=Code.WRONG_UNIT, subject="milli"):
        read(tmp_path, change_columns(**large))
    assert_close(read(tmp_path, change_columns(**large), units={**UNITS, "torque": "mN m"}).tau, MOTION.tau, 1e-14)
    with raises(LogError, code=Code.WRONG_UNIT, subject="milli"):
        read(
            tmp_path,
            change_columns(**{key: values / 1e4 for key, values in large.items()}),
            units={**UNITS, "torque": "mN m"},
        )


@pytest.mark.parametrize(("unit", "word"), [("deg/s", "0.01745 times"), ("rpm", "0.1047 times")])
def test_velocity_that_is_not_the_derivative_is_named(tmp_path, unit, word):
    with raises(LogError, code=Code.WRONG_UNIT, subject="velocity") as raised:
        read(tmp_path, MOTION.table(), units={**UNITS, "velocity": unit})
    assert f"velocity is {word} the derivative" in raised.value.message


def test_time_in_the_wrong_unit_is_named(tmp_path):
    with raises(LogError, code=Code.WRONG_UNIT, subject="velocity"):
        read(tmp_path, change_columns(t=1e3 * MOTION.t))


def test_positions_beyond_the_limits_are_reported(tmp_path):
    log = read(tmp_path, change_columns(q_elbow=MOTION.q[:, 1] + 2.5))
    assert any(
        note.startswith("joint elbow moves from 1.7 to 3.3, beyond its limits -3 to 3") for note in messages(log)
    )


def test_two_signals_of_the_same_columns_are_rejected(tmp_path):
    for signal in ("torque", "velocity"):
        columns = {**STATED["columns"], signal: STATED["columns"]["position"]}
        with raises(LogError, Code.DUPLICATE):
            read(tmp_path, MOTION.table(), columns=columns)


def test_a_log_without_columns_names_the_command_that_drafts_them(tmp_path):
    path = tmp_path / "run.csv"
    pl.DataFrame(MOTION.table()).write_csv(path)
    with raises(LogError, Code.MISSING_VALUE, "columns.position") as raised:
        read_log(path, arm())
    assert raised.value.command == ("log", str(path), "ROBOT", "--confirm")


def test_wrong_robot_lists_both(tmp_path):
    table = {name.replace("wrist", "hand"): column for name, column in MOTION.table().items()}
    with raises(LogError, code=Code.UNKNOWN_NAME, subject="q_wrist"):
        read(tmp_path, table)
    more = {**{f"q{i + 1}": MOTION.q[:, i % 3] for i in range(4)}, **MOTION.table()}
    log = read(tmp_path, more, columns={**STATED["columns"], "position": "q{i}"})
    assert any("logged joints that the robot does not have are not used: q4" in note for note in messages(log))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "mat", "h5", "mcap", "db3"])
@pytest.mark.parametrize("content", [b"", b"this is no log\n"])
def test_empty_and_foreign_files_are_rejected(tmp_path, suffix, content):
    path = tmp_path / f"run.{suffix}"
    path.write_bytes(content)
    with raises(LogError, (Code.TOO_LITTLE_DATA, Code.UNREADABLE, Code.UNKNOWN_NAME)) as raised:
        read_log(path, arm(), metadata=STATED)
    assert raised.value.subject in (path.name, "q_shoulder")


def test_a_header_without_rows_is_rejected(tmp_path):
    (tmp_path / "run.csv").write_text(",".join(MOTION.table()) + "\n")
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="run.csv"):
        read_log(tmp_path / "run.csv", arm(), metadata=STATED)


def test_truncated_parquet_is_rejected(tmp_path):
    pl.DataFrame(MOTION.table()).write_parquet(tmp_path / "run.parquet")
    data = (tmp_path / "run.parquet").read_bytes()
    (tmp_path / "run.parquet").write_bytes(data[: len(data) // 2])
    with raises(LogError, code=Code.UNREADABLE, subject="run.parquet"):
        read_log(tmp_path / "run.parquet", arm(), metadata=STATED)


def test_a_word_among_numbers_is_named(tmp_path):
    table = pl.DataFrame(MOTION.table()).cast(pl.String)
    table = table.with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("off")).otherwise("q_elbow").alias("q_elbow")
    )
    table.write_csv(tmp_path / "run.csv")
    with raises(LogError, code=Code.WRONG_TYPE, subject="q_elbow"):
        read_log(tmp_path / "run.csv", arm(), metadata=STATED)


def test_a_folder_or_missing_file_is_named(tmp_path):
    with raises(LogError, code=Code.MISSING_FILE):
        read_log(tmp_path / "none.csv", arm(), metadata=STATED)
    with raises(LogError, code=Code.WRONG_FORMAT, subject="test_a_folder_or_missing_file_0"):
        read_log(tmp_path, arm(), metadata=STATED)


def test_too_few_rows_are_rejected():
    short = sines(30)
    with raises(LogError, code=Code.TOO_LITTLE_DATA, subject="samples"):
        condition(arm(), log_from_arrays(NAMES, short.t, short.q, short.tau), Conditioning(motion_hz=20.0))


def test_measured_velocity_must_be_logged():
    log = log_from_arrays(NAMES, MOTION.t, MOTION.q, MOTION.tau)
    with raises(LogError, code=Code.MISSING_VALUE, subject="velocity"):
        condition(arm(), log, Conditioning(velocity="measured"))


def test_microseconds_declared_as_milliseconds_are_reported(tmp_path):
    table = {name: values for name, values in change_columns(t=1e6 * MOTION.t).items() if not name.startswith("v_")}
    stated = {"columns": {k: v for k, v in STATED["columns"].items() if k != "velocity"}}
    with raises(LogError, code=Code.WRONG_UNIT, subject="rate"):
        read(tmp_path, table, **stated, units={**UNITS, "time": "ms"})
    assert any("accepted" in note for note in messages(read(tmp_path, table, **stated, accept=["rate"])))
    assert not read(tmp_path, table, **stated, units={**UNITS, "time": "us"}).findings


@pytest.mark.parametrize("chunk_rows", [64, 2000])
def test_a_jump_is_reported_with_joint_time_and_size(tmp_path, chunk_rows):
    q = MOTION.q[:, 1].copy()
    q[640] += np.deg2rad(1000)
    pl.DataFrame(change_columns(q_elbow=q)).write_parquet(tmp_path / "run.parquet")
    stated = {**STATED, "accept": ["velocity", "degrees"]}
    scan = scan_log(tmp_path / "run.parquet", arm(), metadata=stated, chunk_rows=chunk_rows)
    list(scan)
    (note,) = [note for note in messages(scan) if "jumps" in note]
    assert note.startswith("joint elbow jumps by ")
    assert "at 1.28 s (row 640 of run.parquet), the largest of 2" in note or "1.282 s (row 641 of run.parquet)" in note


def test_noise_is_not_reported_as_a_jump(tmp_path):
    noisy = {f"q_{name}": MOTION.q[:, j] for j, name in enumerate(NAMES)}
    noise = np.random.default_rng(0).standard_normal((3, 1000))
    for amplitude in (1e-4, 1e-2):  # at 500 Hz, speeds of 0.07 and 7 rad/s
        columns = {key: q + amplitude * e for (key, q), e in zip(noisy.items(), noise, strict=True)}
        assert not any(
            "jumps" in note for note in messages(read(tmp_path, change_columns(**columns), accept=["velocity"]))
        )


def test_dead_velocities_are_named(tmp_path):
    log = read(tmp_path, change_columns(tau_elbow=np.full(1000, 2.0), v_wrist=np.zeros(1000)))
    assert any("velocity of joint wrist never changes: it is 0 in every row" in note for note in messages(log))


def test_placeholder_numbers_are_dropped(tmp_path):
    tau = MOTION.tau[:, 1].copy()
    tau[400:403] = np.finfo(np.float32).max
    log = read(tmp_path, change_columns(tau_elbow=tau))
    assert len(log) == 997
    assert any("more than 1e+30: torque of elbow (3); dropped" in note for note in messages(log))


def test_many_gaps_are_counted(tmp_path):
    keep = np.r_[0:300, 310:600, 700:1000]
    log = read(tmp_path, {name: column[keep] for name, column in MOTION.table().items()})
    samples = condition(arm(), log, Conditioning(motion_hz=50.0, edge_s=0.1))
    message = "2 gaps, the longest of 0.202 s after row 589: the log is split into 3 segments"
    assert message in messages(samples)
