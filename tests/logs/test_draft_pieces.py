"""What a draft says of a log, line by line, from groups and numbers made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from closeness import EXACT, SAME_ALGEBRA, assert_close

from mindyn.logs.draft import QUESTION, Belief, Draft
from mindyn.logs.draft_head import Head, _of_arrays
from mindyn.logs.draft_names import Group, _by_number, _common_start, _spellings, _width, groups_of, words_of
from mindyn.logs.draft_numbers import (
    Clock,
    _nanoseconds_beside,
    _rate_text,
    _time_rank,
    _usual,
    clock_of,
    position_side,
    position_unit,
    velocity_slope,
)
from mindyn.logs.drafting import (
    _chosen,
    _contained,
    _known_units,
    _named_order,
    _order_text,
    _ordered,
    _unread,
    _values,
    _with_columns,
    _with_side,
    _with_time,
    _with_torque,
    _with_units,
    _with_velocity,
)
from mindyn.robots.loading import load_robot
from mindyn.robots.parts import Limits

PLANAR = load_robot("planar2")
EMPTY = Draft("run.csv", ())
T = np.arange(50) / 100


def group(name, count=2, order="numbers", ending=()):
    columns = tuple(f"{name}{k + 1}" for k in range(count))
    return Group(f"{name}{{i}}", columns if order != "array" else (name,), count, words_of(name), order, ending)


def head(**columns):
    return Head(columns, {}, {}, ())


def limited(reach):
    joints = tuple(replace(one, limits=Limits(-reach, reach)) for one in PLANAR.joints)
    return replace(PLANAR, joints=joints)


def test_rates_are_told_with_the_steps_that_differ():
    assert _rate_text(T) == "100 Hz"
    gaps = T.copy()
    gaps[25:] += 0.5
    assert _rate_text(gaps) == "100 Hz, 2 % of the steps differ from it"
    few = np.arange(201) / 100
    few[100:] += 0.5  # one step of two hundred is not worth a word
    assert _rate_text(few) == "100 Hz"
    two = np.cumsum(np.where(np.arange(40) % 2, 0.0104, 0.0096))
    assert _rate_text(two) == "96.154 Hz, 49 % of the steps differ from it"
    assert _rate_text(np.cumsum(np.where(np.arange(40) % 2, 0.0102, 0.0099))) == "98.039 Hz"
    assert _rate_text(np.zeros(4)).startswith("nan Hz")


def test_usual_rates_and_words_of_time():
    assert [_usual(rate) for rate in (9.99, 10.0, 5000.0, 5000.1)] == [False, True, True, False]
    assert _time_rank("field.header.stamp") < _time_rank("time") < _time_rank("t")
    assert _time_rank("delta_t") is None
    assert _time_rank("dt") is None
    assert _time_rank("position") is None
    columns = {"a.sec": T, "a.nanosec": T, "b.secs": T, "b.nsecs": T, "c.sec": T, "c.nsec": np.ones((50, 2))}
    assert _nanoseconds_beside("a.sec", columns) == "a.nanosec"
    assert _nanoseconds_beside("b.secs", columns) == "b.nsecs"
    assert _nanoseconds_beside("c.sec", columns) is None  # no column of numbers
    assert _nanoseconds_beside("a.nanosec", columns) is None


def test_evidence_of_a_clock():
    assert clock_of({"t": T}).evidence == "100 Hz; the unit in which the rate is usual"
    assert clock_of({"t_ms": 1e3 * T}).evidence == "100 Hz; the name says so"
    assert clock_of({"t_ms": 1e3 * T}).unit == "ms"
    wrong = clock_of({"t_us": T})  # the rate speaks against the name
    assert (wrong.unit, wrong.evidence) == ("s", "100 Hz; the unit in which the rate is usual")
    slow = clock_of({"t": 0.15 * np.arange(60)})
    assert slow.unit is None
    assert slow.evidence == "a step of 0.15 is a usual rate in no unit of time"
    assert clock_of({"t_s": 0.15 * np.arange(60)}).unit == "s"  # the name alone
    assert clock_of({"x": T}).evidence == "no column of the file is a time"
    both = clock_of({"s.sec": np.floor(3 * T) + 9, "s.nanosec": 1e9 * (3 * T % 1) + 5})
    assert both.unit == "s"
    assert both.evidence.startswith("seconds and nanoseconds, 33.333 Hz")
    assert_close(both.seconds, 3 * T, SAME_ALGEBRA)


def test_the_slope_of_a_velocity_is_that_of_travelled_ways():
    rng = np.random.default_rng(0)
    seconds = np.cumsum(rng.uniform(0.005, 0.02, 40))
    seconds[20:] -= 0.3  # the time goes back once
    q, v = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    steps = [k for k in range(39) if seconds[k + 1] > seconds[k]]
    change = np.array([q[k + 1] - q[k] for k in steps])
    ways = np.array([(v[k + 1] + v[k]) / 2 * (seconds[k + 1] - seconds[k]) for k in steps])
    together = (change * ways).sum()
    expected = together / (change**2).sum(), together**2 / ((change**2).sum() * (ways**2).sum())
    assert len(steps) == 38
    assert_close(velocity_slope(q, v, seconds), expected, SAME_ALGEBRA)


@pytest.mark.parametrize(
    ("peak", "reach", "value", "said"),
    [
        (2.09, 2.0, "rad", "up to 2.09, within the limits as rad"),
        (2.11, 2.0, None, "up to 2.11"),
        (0.21, 2.0, "rad", "within"),
        (0.19, 2.0, None, "up to 0.19"),
        (6.2, 2.0, None, "up to 6.2"),
        (6.3, 2.0, None, "deg at the joints, or rad at motors"),
        (6.3, 3.2, None, "up to 6.3"),
        (np.rad2deg(2.0) * 1.19, 2.0, None, "deg at the joints"),
        (np.rad2deg(2.0) * 1.21, 2.0, None, "up to"),
    ],
)
def test_units_of_positions_at_their_bounds(peak, reach, value, said):
    q = np.array([[0.0, 0.0], [-peak, 0.1]])
    found = position_unit(q, limited(reach), ["revolute"] * 2)
    assert found.value == value
    assert said in found.evidence
    assert ("motors" in found.evidence) == ("deg at the joints" in said)


def test_units_of_positions_without_a_robot_or_of_slides():
    assert position_unit(np.array([[4 * np.pi]]), None, []).evidence == "up to 12.6, within four half turns as rad"
    assert position_unit(np.array([[-20.5]]), None, ["prismatic"]).value == "mm"
    assert position_unit(np.array([[-19.5]]), None, ["prismatic"]).value == "m"
    assert position_unit(np.array([[-20.5]]), None, ["prismatic"]).evidence == "the largest is 20.5"
    assert position_unit(np.array([[-19.5, 1.0]]), None, ["prismatic", "revolute"]).value is None
    wide = np.array([[1.0, 1.0, 900.0]])  # a third column that the robot has not
    assert position_unit(wide, limited(2.0), ["revolute"] * 2).evidence.startswith("up to 900, within")


@pytest.mark.parametrize(
    ("times", "value", "said"),
    [
        (1.49, "joint", "149 % of the limits at most"),
        (1.51, None, "1.51 times the limits: another zero, or motors"),
        (4.99, None, "another zero, or motors"),
        (5.01, None, "5.01 times the limits: motors turn so far, joints do not"),
    ],
)
def test_sides_of_positions_at_their_bounds(times, value, said):
    q = np.rad2deg(np.array([[0.0, 0.0, 1e9], [-2.0 * times, 0.1, 0.0]]))
    found = position_side(q, "deg", limited(2.0))
    assert found.value == value
    assert said in found.evidence
    assert position_side(q, "deg", None).evidence == "no robot is given"


def test_the_group_that_measures_a_signal_most_likely_is_chosen():
    plain, measured, target = group("q"), group("actual_pos"), group("q_target")
    assert _chosen([plain, target], 2, ())["position"] is plain
    assert _chosen([plain, measured], 2, ())["position"] is measured  # a word that says measured comes first
    wide = group("actual_q", 3)
    assert _chosen([wide, group("actual_pos")], 2, ())["position"].count == 2  # then the robot's number of joints
    assert _chosen([group("angle"), plain], 2, ())["position"] is plain  # then the likelier word
    assert _chosen([group("q", 1)], 2, ()) == {}
    near, far = group("left_arm_vel"), group("base_arm_vel")
    chosen = _chosen([group("left_arm_pos"), group("right_vel"), near], 2, ())
    assert chosen["velocity"] is near  # then the one that shares its words with the position's
    assert "velocity" not in _chosen([group("left_arm_pos"), far], 2, ())
    unnamed = group("column_")
    assert _chosen([unnamed], 2, ("pos",)) == {"position": unnamed}
    assert _chosen([unnamed], 2, ()) == {}
    assert _chosen([group("tau", 1)], 0, ())["torque"].count == 1


def test_lines_on_the_time():
    none = _with_time(EMPTY, Clock())
    assert none.value("rate_hz") == QUESTION
    assert none.beliefs[0].evidence == "no column of the file is a time: how many rows a second?"
    one = _with_time(EMPTY, Clock(("t",), "ms", T, "100 Hz"))
    assert [(b.key, b.value, b.evidence) for b in one.beliefs] == [
        ("columns.time", "t", "100 Hz"),
        ("units.time", "ms", "100 Hz"),
    ]
    open_unit = _with_time(EMPTY, Clock(("t",), None, None, "odd"))
    assert open_unit.value("units.time") == QUESTION
    assert open_unit.beliefs[-1].evidence == "one of s, ms, us, ns: odd"
    two = _with_time(EMPTY, Clock(("s", "ns"), "s", np.concatenate([T[:20], T]), "x"))
    assert two.value("columns.time") == ["s", "ns"]
    assert two.value("units.time") is None
    assert two.value("rows") == [20, 70]
    assert two.beliefs[-1].evidence == "the time goes back: 50 rows of the longest recording in the file"


def test_lines_on_columns_and_their_order():
    chosen = {"position": group("q"), "torque": group("tau")}
    plain = _with_columns(EMPTY, Path("x.csv"), chosen, {"torque": "tau.csv"}, ("a", "b"), head())
    assert plain.value("columns.position") == "q{i}"
    assert plain.value("files.torque") == "tau.csv"
    assert plain.value("joints") is None
    assert plain.beliefs[0].evidence == "2 joints; the numbers are taken to follow the robot's order"
    wide = {"position": group("q", 4), "torque": group("tau", 3)}
    more = _with_columns(EMPTY, Path("x.csv"), wide, {}, ("a", "b"), head())
    assert more.value("joints") == ["a", "b", "column 3", "column 4"]
    assert more.beliefs[-1].evidence == "taken to be the robot's; the log has 2 more"
    arrays = {"position": group("q", 2, "array"), "torque": group("tau", 2, "array")}
    listed = _with_columns(EMPTY, Path("x.csv"), arrays, {}, ("a", "b"), head())
    assert listed.value("joints") == ["a", "b"]
    assert listed.beliefs[-1].evidence == "taken to be the robot's"
    named = Head({}, {"name0": "b", "name1": "a", "mode": "on"}, {}, ())
    assert _with_columns(EMPTY, Path("x.csv"), chosen, {}, ("a", "b"), named).value("joints") == ["b", "a"]
    assert _with_columns(EMPTY, Path("x.csv"), wide, {}, (), head()).value("joints") is None
    by_name = {"position": group("q", 2, "names"), "torque": group("tau", 2, "names")}
    assert _with_columns(EMPTY, Path("x.csv"), by_name, {}, ("a", "b"), named).value("joints") is None
    assert _named_order(named, 2) == ["b", "a"]
    assert _named_order(named, 3) is None
    assert _order_text(group("q", 2, "names"), ("a",)) == "by the joints' names"
    assert _order_text(group("q", 2, "array"), ("a",)).startswith("2 joints; the columns of the array are taken")
    assert _order_text(group("q"), ()) == "2 joints"
    listing = replace(group("q"), stated=("x", "y"))
    found = _with_columns(EMPTY, Path("x"), {"position": listing}, {}, (), head())
    assert found.value("columns.position") == ["x", "y"]


def test_values_are_put_into_the_robots_order():
    q = np.array([[1.0, 2.0, 3.0]])
    made = head(q1=q[:, 0], q2=q[:, 1], arr=q)
    assert_close(_values(group("q"), made), q[:, :2], EXACT)
    assert_close(_values(group("arr", 3, "array"), made), q, EXACT)
    first, second = PLANAR.primary_names
    swapped = EMPTY.stating(Belief("joints", [second, "gripper", first], ""))
    assert _ordered(q, swapped, PLANAR).tolist() == [[3.0, 1.0]]
    assert _ordered(q, swapped, None) is q
    assert _ordered(q, EMPTY, PLANAR) is q
    other = EMPTY.stating(Belief("joints", ["x", "y", "z"], ""))
    assert _ordered(q, other, PLANAR) is q


def test_units_that_formats_define():
    si = {"position": "rad", "velocity": "rad/s", "acceleration": "rad/s^2"}

    def of(position, torque):
        return _known_units({"position": group(position), "torque": group(torque)})

    assert of("actual_q", "actual_current") == {**si, "torque": "A"}
    assert of("actual_q", "target_moment") == si
    assert of("state.q", "state.tau_J") == {**si, "torque": "N m"}
    assert of("joint.position", "joint.effort") == {**si, "torque": "N m"}
    for neither in (("q", "tau"), ("state.x", "state.tau_J"), ("joint.position", "tau"), ("q", "joint.effort")):
        assert of(*neither) == {}


def velocity_of(times, *, name="qd", unit="rad", seconds=T, kinds=(), files=()):
    q = np.column_stack([np.sin(9 * T), np.cos(8 * T)])
    v = times * np.column_stack([9 * np.cos(9 * T), -8 * np.sin(8 * T)])
    made = head(q1=q[:, 0], q2=q[:, 1], **{f"{name}{k + 1}": v[:, k] for k in range(2)})
    chosen = {"position": group("q"), "velocity": group(name), "torque": group("tau")}
    draft = Draft("run", (Belief("columns.velocity", "x", ""),))
    return _with_velocity(draft, chosen, dict.fromkeys(files, "v.csv"), made, Clock(("t",), "s", seconds), unit, kinds)


def test_lines_on_velocities():
    good = velocity_of(1.0)
    assert good.value("units.velocity") == "rad/s"
    assert "times the derivative of the position, which explains 100.0 % of it" in good.beliefs[-1].evidence
    assert velocity_of(180 / np.pi).value("units.velocity") == "deg/s"
    against = velocity_of(180 / np.pi, name="qd_rad_s_")
    assert against.value("units.velocity") == "deg/s"
    assert against.beliefs[-1].evidence.endswith("; its name says rad/s, which does not fit")
    odd = velocity_of(3.0)
    assert odd.value("columns.velocity") is None
    assert odd.notes[0].startswith("qd{i} is called a velocity, but is 3 times the derivative of the position")
    assert odd.notes[0].endswith("(agreement 100 %): it is left out")
    backwards = velocity_of(-1.0)
    assert backwards.value("units.velocity") is None
    for unknown in ({"unit": None}, {"seconds": None}, {"files": ("velocity",)}):
        open_one = velocity_of(1.0, **unknown)
        assert open_one.value("units.velocity") == QUESTION
        assert open_one.beliefs[-1].evidence == "rad/s, deg/s, rpm, ...?"
        said = velocity_of(1.0, name="qd_rad_s_", **unknown)
        assert (said.value("units.velocity"), said.beliefs[-1].evidence) == ("rad/s", "the name says so")
    assert velocity_of(1.0, unit="m", kinds=["prismatic"]).value("units.velocity") == "m/s"
    none = _with_velocity(EMPTY, {"position": group("q")}, {}, head(), Clock(), "rad", [])
    assert none is EMPTY


def torque_line(name, peak, known=None, *, here=True):
    made = head(**{f"{name}{k + 1}": np.array([-peak, 0.1]) for k in range(2)})
    return _with_torque(EMPTY, group(name, ending=words_of(name)[-1:]), known or {}, made if here else None)


def test_lines_on_torques():
    plain = torque_line("tau", 30.0)
    assert plain.value("units.torque") == QUESTION
    assert plain.beliefs[0].evidence == "one of N m, mN m, N, mN, A, mA; up to 30"
    assert plain.value("current_gains") is None
    named = torque_line("tau_Nm", 30.0)
    assert (named.value("units.torque"), named.beliefs[0].evidence) == ("N m", "the name says so; up to 30")
    defined = torque_line("tau", 30.0, {"torque": "N m"})
    assert defined.value("units.torque") == "N m"
    assert defined.beliefs[0].evidence == "by definition of the format; up to 30"
    for peak, unit in ((199.0, "A"), (201.0, "mA")):
        current = torque_line("motor_current", peak)
        assert current.value("units.torque") == unit
        assert current.beliefs[0].evidence == f"the name says current; up to {peak:g}"
        assert current.value("current_gains") == QUESTION
    elsewhere = torque_line("motor_current", 5.0, here=False)
    assert elsewhere.value("units.torque") == QUESTION


def side_of(position, torque, q, unit="rad", robot=PLANAR, torque_unit="N m", extra=()):
    draft = EMPTY.stating(Belief("units.torque", torque_unit, ""))
    chosen = {"position": group(position), **{one: group(one) for one in extra}, "torque": group(torque)}
    return _with_side(draft, chosen, q, unit, robot)


def test_lines_on_sides():
    inside, far = np.array([[1.0, 1.0]]), np.array([[80.0, 80.0]])
    arm = limited(2.0)
    both = side_of("q", "tau", inside, robot=arm, extra=("velocity",))
    assert (both.value("side.position"), both.value("side.velocity")) == ("joint", "joint")
    assert [one.evidence for one in both.beliefs if one.key == "side.velocity"] == ["as the position"]
    assert both.value("side.torque") == QUESTION
    assert (both.value("gears") is None) == bool(arm.drives)
    motor = side_of("motor_q", "motor_tau", far, robot=arm)
    assert (motor.value("side.position"), motor.value("side.torque")) == ("motor", "motor")
    (why,) = [one.evidence for one in motor.beliefs if one.key == "side.position"]
    assert why.startswith("the name says so; 40 times")
    assert side_of("motor_q", "tau", inside, robot=arm).value("side.position") == "joint"
    assert side_of("q", "tau", far, robot=arm).value("side.position") == QUESTION
    alone = side_of("joint_q", "effort", inside, robot=None)
    assert (alone.value("side.position"), alone.value("side.torque")) == ("joint", "joint")
    assert alone.value("gears") is None
    assert side_of("joint_q", "tau", far, robot=arm).value("side.position") == QUESTION
    unknown = side_of("q", "tau", inside, unit=None, robot=arm)
    assert unknown.value("side.position") == QUESTION
    told = [one.evidence for one in unknown.beliefs if one.key == "side.position"]
    assert told == ["motor or joint: the unit is not known"]
    for unit in ("A", "mA"):
        assert side_of("q", "motor_tau", inside, torque_unit=unit, robot=arm).value("side.torque") == "joint"
    bare = replace(arm, drives=())
    assert side_of("motor_q", "motor_tau", far, robot=bare).value("gears") == QUESTION
    assert side_of("state.q", "state.tau_J", inside, robot=bare).value("gears") is None


def test_lines_on_units_of_positions():
    robot = limited(2.0)
    chosen = {"position": group("q"), "acceleration": group("qdd"), "torque": group("tau")}

    def of(peak, assumed=None, robot=robot, chosen=chosen):
        made = {name: np.array([0.0, peak]) for one in chosen.values() for name in one.columns}
        return _with_units(EMPTY, chosen, {}, head(**made), Clock(), robot, assumed)

    rad = of(1.5)
    assert (rad.value("units.position"), rad.value("units.acceleration")) == ("rad", "rad/s^2")
    assert rad.beliefs[0].evidence == "up to 1.5, within the limits as rad"
    unsure = of(80.0)
    assert (unsure.value("units.position"), unsure.value("units.acceleration")) == (QUESTION, QUESTION)
    assert unsure.beliefs[0].evidence.startswith("one of rad, deg, m, mm: up to 80: deg at the joints")
    assert of(80.0, "deg").value("units.acceleration") == "deg/s^2"
    assert of(1.5, "deg").value("units.position") == "rad"
    named = {**chosen, "position": group("q_deg", ending=("deg",))}
    assert of(80.0, chosen=named).beliefs[0].evidence.startswith("the name says so; up to 80")
    states = {"position": group("actual_q"), "torque": group("actual_current")}
    assert of(1.5, chosen=states).beliefs[0].evidence.startswith("by definition of the format; up to 1.5")
    mixed = load_robot("scara")
    four = {"position": group("q", 4), "torque": group("tau", 4)}
    assert any("joints that turn and joints that slide" in note for note in of(0.1, robot=mixed, chosen=four).notes)
    assert rad.notes == ()


def test_logs_that_cannot_be_read_say_what_they_hold():
    made = Head({"a": T, "b": T}, {}, {}, ())
    error = _unread(Path("run.csv"), made, ["position", "torque"], ("j1", "j2"))
    assert error.message.startswith("no columns of run.csv look like position and torque for each of the joints j1, j2")
    assert "its columns are: a, b" in error.message
    assert error.hint.startswith("state them in a sidecar file")
    bare = _unread(Path("run.csv"), Head({}, {}, {}, ("no names",)), ["torque"], ())
    assert bare.message == "no columns of run.csv look like torque; it has no column of numbers"
    assert bare.hint.startswith("without names nobody can tell them")


def test_groups_by_joint_names_and_numbers():
    joints = ("shoulder_joint", "elbow_joint")
    columns = dict.fromkeys(["t", "pos_shoulder", "pos_elbow", "vel.shoulder_joint", "vel.elbow_joint", "x1", "x2"], T)
    found = groups_of({**columns, "tau_shoulder_joint": T, "arr": np.ones((50, 3))}, joints)
    assert [(one.order, one.count) for one in found] == [("array", 3), ("names", 2), ("names", 2), ("numbers", 2)]
    assert found[1].stated == ("pos_shoulder", "pos_elbow")
    assert found[2].stated == "vel.{joint}"
    assert found[3].stated == "x{i}"
    assert _spellings("shoulder_joint", joints) == ["shoulder_joint", "shoulder"]
    assert _spellings("j1", ("j1", "j2")) == ["j1"]
    assert _spellings("abc", ("abc",)) == ["abc"]
    assert _spellings("arm_abc", ("arm_abc", "arm_xyz")) == ["arm_abc", "abc"]
    assert _common_start(["left_a", "left_b"]) == "left_"
    assert _common_start(["ab", "abc"]) == "ab"


def test_numbers_count_on_from_nought_or_one():
    def of(*names):
        return [(one.stated, one.columns) for one in _by_number(names)]

    assert of("q2", "q1") == [("q{i}", ("q1", "q2"))]
    assert of("q0", "q1") == [("q{i0}", ("q0", "q1"))]
    assert of("q2", "q3") == []
    assert of("q1", "q3") == []
    assert of("q1") == []
    assert of("q01", "q02") == [("q{i:02}", ("q01", "q02"))]
    assert of("a1_x{0}", "a2_x{0}") == [("a{i}_x{{0}}", ("a1_x{0}", "a2_x{0}"))]
    assert _width(["q00", "q01"], "q", "") == 2
    assert _width(["q0", "q1"], "q", "") == 1
    assert _width(["q10", "q11"], "q", "") == 1
    both = of("arm2_q1", "arm2_q2", "b1", "b2")
    assert [one[0] for one in both] == ["arm2_q{i}", "b{i}"]


def test_names_of_joints_within_names():
    joints = ("elbow_joint", "elbow_flex_joint", "wrist")
    assert _contained("main_elbow_flex.pos", joints) == "elbow_flex_joint"
    assert _contained("main_elbow.pos", joints) == "elbow_joint"
    assert _contained("gripper", joints) is None


def test_time_runs_along_the_length_that_most_arrays_share():
    class Table:
        def __init__(self, *lengths):
            self.lengths = lengths

        def head(self, _rows):
            return {f"x{k}": np.ones(length) for k, length in enumerate(self.lengths)}

    assert list(_of_arrays(Table(5, 7, 7)).columns) == ["x1", "x2"]
    assert list(_of_arrays(Table(5, 7)).columns) == ["x1"]
    assert list(_of_arrays(Table(1, 1, 1, 9)).columns) == ["x3"]
    assert _of_arrays(Table()).columns == {}
