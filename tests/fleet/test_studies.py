"""Studies of fleets: counted logs, excluded logs, estimates and differences."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from closeness import ORACLE, assert_close
from fleets import ARM, SETTINGS, SIDECAR, log_bytes
from messages import messages
from raising import raises

import mindyn
from mindyn.applications.fleet import study_fleet as fleet_module
from mindyn.applications.fleet.path_template import Template, find_day, parse_day
from mindyn.applications.fleet.study_files import explain_no_difference, write_study
from mindyn.applications.fleet.study_fleet import FleetStudy, study_fleet
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Severity
from mindyn.logs.locations import FileListing

ROBOTS, LOGS = 8, 5


def day(k: int) -> str:
    return (date(2026, 1, 1) + timedelta(days=20 * k)).isoformat()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """arm1's friction grows, arm3 carries a load, arm5's zero is off; the others are as the type is."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "logs.toml").write_text(SIDECAR)
    for robot in range(ROBOTS):
        for k in range(LOGS):
            place = folder / f"arm{robot}" / day(k)
            place.mkdir(parents=True)
            wrong = {1: {"friction": 1 + 0.2 * k}, 3: {"mass": 3.0}, 5: {"zero": 0.05}}.get(robot, {})
            (place / "run.parquet").write_bytes(log_bytes((robot, k), **wrong))
    return folder


def study(logs: Path, out: Path, **more: object) -> FleetStudy:
    given = {"settings": SETTINGS, "group_by": ("robot_id", "month"), **more}
    return study_fleet(ARM, f"{logs}/{{robot_id}}/{{date}}/*.parquet", out, **given)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def first_study(logs: Path, out: Path) -> FleetStudy:
    return study(logs, out)


def values(first_study: FleetStudy) -> bytes:
    assert all(value.estimate is not None for value in (first_study.type, *first_study.robots))
    return b"".join(
        item.estimate.beta.tobytes() for item in (first_study.type, *first_study.robots, *first_study.groups)
    )


def test_robots_that_differ_are_named_and_no_others(first_study):
    assert {(item.robot, item.cause.what, item.drift) for item in first_study.differences} == {
        ("arm1", "friction", True),
        ("arm3", "payload", False),
        ("arm5", "zero", False),
    }
    by = {difference.robot: difference for difference in first_study.differences}
    assert by["arm1"].cause.where == "joint2"
    assert "3" in by["arm3"].sentence
    assert abs(by["arm5"].size - 0.05) < 0.02
    assert "joint2" in by["arm5"].sentence


def test_a_robot_s_estimate_is_that_of_its_logs_alone(first_study, logs):
    scans = [mindyn.scan_log(logs / "arm2" / day(k) / "run.parquet", ARM, metadata=_sidecar()) for k in range(LOGS)]
    alone = mindyn.LeastSquares().fit(mindyn.build_rows(ARM, scans, SETTINGS))
    (member,) = [robot for robot in first_study.robots if robot.key == ("arm2",)]
    assert_close(member.estimate.beta, alone.beta, ORACLE)
    assert (member.logs, len(member.deviations)) == (LOGS, len(alone.beta))
    assert np.isfinite(member.deviations).mean() > 0.7  # too few logs determine the others
    assert {group.key for group in first_study.groups} >= {("arm2", "2026-01"), ("arm2", "2026-03")}


def _sidecar() -> dict[str, object]:
    import tomllib

    return tomllib.loads(SIDECAR)


def test_a_second_study_reads_nothing_and_has_the_same_bits(first_study, logs, out):
    again = study(logs, out, settings=None)
    assert again.gathered == 0
    assert values(again) == values(first_study)
    assert first_study.gathered == ROBOTS * LOGS


def test_new_logs_are_added_and_a_changed_one_replaces_itself(tmp_path):
    few = tmp_path / "few"
    (few / "arm0" / day(0)).mkdir(parents=True)
    (few / "logs.toml").write_text(SIDECAR)
    first = few / "arm0" / day(0) / "a.parquet"
    first.write_bytes(log_bytes(1))
    assert study(few, tmp_path / "out").gathered == 1
    (few / "arm0" / day(0) / "b.parquet").write_bytes(log_bytes(2))
    grown = study(few, tmp_path / "out")
    assert (grown.gathered, grown.type.logs) == (1, 2)
    first.write_bytes(log_bytes(3))
    changed = study(few, tmp_path / "out")
    assert (changed.gathered, changed.type.logs) == (1, 2)
    # The same reference of the columns of joint zeros, and no factors.
    shutil.copytree(tmp_path / "out", tmp_path / "fresh", ignore=shutil.ignore_patterns("*.npz"))
    fresh = study(few, tmp_path / "fresh")
    assert fresh.gathered == 2
    assert values(changed) == values(fresh)
    first.unlink()
    kept = study(few, tmp_path / "out")
    assert kept.type.logs == 2
    assert "1 log used by factors alone" in messages(kept)[0]
    left = study(few, tmp_path / "out", exclude_logs=["*/a.parquet"])
    assert left.type.logs == 1
    assert [item.reason for item in left.excluded] == ["excluded by the user"]


def test_unusable_logs_are_excluded_by_name_and_the_others_count(tmp_path):
    folder = tmp_path / "logs"
    for k in range(3):
        place = folder / "arm0" / day(k)
        place.mkdir(parents=True)
        (place / "good.parquet").write_bytes(log_bytes(k))
    (folder / "logs.toml").write_text(SIDECAR)
    place = folder / "arm0" / day(0)
    (place / "damaged.parquet").write_bytes(log_bytes(9)[:900])
    (place / "copy.parquet").write_bytes(log_bytes(0))
    pl.DataFrame({"t": [0.0, 0.01], "a1": [0.0, 1.0]}).write_parquet(place / "other.parquet")
    wrong = pl.read_parquet(log_bytes(4)).with_columns(-pl.col("tau1"), -pl.col("tau2"))
    wrong.write_parquet(place / "turned.parquet")
    slow = pl.read_parquet(log_bytes(5)).with_columns(pl.col("t") * 2)
    slow.write_parquet(place / "slow.parquet")
    result = study(folder, tmp_path / "out")
    reasons = {Path(item.name).name: item.reason for item in result.excluded}
    assert set(reasons) == {"damaged.parquet", "good.parquet", "other.parquet", "turned.parquet", "slow.parquet"}
    assert "damaged.parquet cannot be read" in reasons["damaged.parquet"]
    assert "has the same bytes as" in reasons["good.parquet"]
    assert "has no position column q1" in reasons["other.parquet"]
    assert "worse than zero" in reasons["turned.parquet"]
    assert reasons["slow.parquet"].startswith("the log has a rate of 50 Hz")
    assert result.type.logs == 3


def test_a_small_fleet_is_not_said_to_have_no_differences(tmp_path):
    (tmp_path / "logs.toml").write_text(SIDECAR)
    for robot, k in itertools.product(range(3), range(3)):
        (tmp_path / f"arm{robot}").mkdir(exist_ok=True)
        (tmp_path / f"arm{robot}" / f"{k}.parquet").write_bytes(log_bytes((robot, k), friction=1.0 + robot))
    fleet = study_fleet(ARM, f"{tmp_path}/{{robot_id}}/*.parquet", tmp_path / "out", settings=SETTINGS)
    assert explain_no_difference(fleet).startswith("Differences were not tested")
    write_study(fleet, tmp_path / "out", {"version": "0", "command": ["mindyn"]})
    assert "lead grade-fair" in (tmp_path / "out" / "report.html").read_text()


def test_limits_of_the_robot_are_no_reason_to_record_more(tmp_path):
    (tmp_path / "logs.toml").write_text(SIDECAR)
    for k in range(3):
        (tmp_path / f"{k}.parquet").write_bytes(log_bytes(k))
    mimics = (mindyn.robots.Mimic("joint3", "joint2"),)
    arm = replace(mindyn.load_robot("panda", tip="link3"), drives=(), mimics=mimics)
    fleet = study_fleet(arm, f"{tmp_path}/{{robot_id}}.parquet", tmp_path / "out", settings=SETTINGS)
    of_zeros = [finding for finding in fleet.findings if "zeros" in finding.message]
    assert [(finding.severity, finding.remedy) for finding in of_zeros] == [(Severity.INFO, "")]


def test_groups_may_come_from_constant_columns(tmp_path):
    for k in range(2):
        (tmp_path / f"{k}.parquet").write_bytes(log_bytes(k, serial=f"s{k}"))
    (tmp_path / "logs.toml").write_text(SIDECAR)
    result = study_fleet(ARM, f"{tmp_path}/*.parquet", tmp_path / "out", settings=SETTINGS, group_by=["serial"])
    assert [robot.key for robot in result.robots] == [("s0",), ("s1",)]


def test_robots_differ_even_if_the_type_without_them_does_not_show_it(first_study, logs, out, monkeypatch):
    """Friction that the type does not have cannot be compared with it: the robots stay excluded and named."""
    assess, calls = fleet_module.assess_fleet, []

    def assess_once(causes, evidence):
        calls.append(assess(causes, evidence))
        return calls[0] if len(calls) % 2 else calls[0]._replace(named=())

    monkeypatch.setattr(fleet_module, "assess_fleet", assess_once)
    again = study(logs, out, settings=None)
    assert {d.robot for d in again.differences} == {d.robot for d in first_study.differences} != set()
    assert again.type.estimate.beta.tobytes() == first_study.type.estimate.beta.tobytes()
    assert len(calls) == 2


def test_a_study_writes_tables_a_page_and_an_estimate(first_study, out):
    written = write_study(first_study, out, {"version": "0", "command": ["mindyn"]})
    assert out / "report.html" in written
    assert all(path.is_file() for path in written)
    table = pl.read_parquet(out / "parameters.parquet")
    assert set(table["level"]) == {"type", "robot", "group"}
    assert set(table.filter(pl.col("level") == "robot")["robot_id"]) == {f"arm{k}" for k in range(ROBOTS)}
    assert pl.read_parquet(out / "differences.parquet")["robot"].to_list() == [
        difference.robot for difference in first_study.differences
    ]
    assert mindyn.load_estimate(out / "estimate.json").beta.tobytes() == first_study.type.estimate.beta.tobytes()
    assert json.loads((out / "fleet.json").read_text())["robots"] == ROBOTS
    page = (out / "report.html").read_text()
    assert "arm5" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_templates_parse_the_fields_of_paths():
    template = Template("s3://bucket/{robot_id}/{date}/x-*.parquet")
    assert template.fields == ("robot_id", "date")
    assert template.pattern == "s3://bucket/*/*/x-*.parquet"
    assert template.root == "s3://bucket/"
    from mindyn.logs.locations import parse_location

    result = template.parse_fields(parse_location("s3://bucket/r 1/2026-02-03/x-9.parquet"))
    assert result == {"robot_id": "r 1", "date": "2026-02-03"}
    assert template.parse_fields(parse_location("s3://bucket/r/2026-02-03/deep/x-9.parquet")) is None
    assert parse_day("2026-01-02") == parse_day("20260101") + 1
    assert parse_day("arm") is None


def test_the_day_of_a_log_comes_from_its_path():
    listed = FileListing(Path("a.parquet"), 9, "1", 86400.0)
    february = parse_day("2026-02-01")
    assert find_day({"date": "20260203"}, listed) == february + 2
    assert find_day({"month": "2026-02"}, listed) == february
    assert find_day({"day": "2026-02-03", "month": "2026-02"}, listed) == february + 2
    assert find_day({"year": "2026", "month": "2", "day": "03"}, listed) == february + 2
    assert find_day({"year": "2026", "month": "02"}, listed) == february
    assert find_day({"month": "spring", "robot_id": "2026-02-01"}, listed) == 1.0


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("{a b}/*.parquet", Code.WRONG_FORMAT),
        ("nothing/{r}/*.parquet", Code.MISSING_FILE),
        ("*.parquet", Code.MISSING_VALUE),
    ],
)
def test_invalid_patterns_raise(tmp_path, pattern, code):
    with raises(InputError, code, f"{tmp_path}/{pattern}"):
        study_fleet(ARM, f"{tmp_path}/{pattern}", tmp_path / "out", settings=SETTINGS)


def test_the_command_writes_the_study(first_study, logs, out, tmp_path, capsys):
    from mindyn.cli.fleet_command import fleet

    first_study.type.estimate.save(tmp_path / "type.json")
    pattern = f"{logs}/{{robot_id}}/{{date}}/*.parquet"
    fleet("planar2", pattern, out, "robot_id,month", settings=tmp_path / "type.json", as_json=True, verbose=True)
    result = capsys.readouterr()
    summary = json.loads(result.out)
    assert (summary["robots"], summary["gathered"]) == (ROBOTS, 0)
    assert [item["robot"] for item in summary["differences"]] == [
        difference.robot for difference in first_study.differences
    ]
    assert f"{ROBOTS * LOGS} logs match, 0 of them must be read" in result.err
    robot = first_study.differences[0].robot
    command = f"mindyn identify planar2 {logs}/{robot}/*/*.parquet --hold-out 0.3 --out {robot}"
    assert command in (out / "report.html").read_text()
    with raises(InputError, Code.DISAGREEMENT, "--workers"):
        fleet("planar2", pattern, out, workers=2, cluster="tcp://127.0.0.1:1")
