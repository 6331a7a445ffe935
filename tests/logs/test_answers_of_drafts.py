"""A draft of a sidecar answers what numbers and names of a log show, and asks the rest.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from closeness import EXACT, assert_close
from draft_parts import EMPTY, PLANAR, T, build_limited_robot, contents, group, head

from mindyn.logs.drafts.draft import UNANSWERED, DraftLine, SidecarDraft, format_toml_value
from mindyn.logs.drafts.draft_columns import choose_groups, find_missing_joints, stack_values
from mindyn.logs.drafts.draft_head import Clock, LogHead
from mindyn.logs.drafts.draft_names import split_words
from mindyn.logs.drafts.drafting import (
    _add_columns,
    _add_side,
    _add_time,
    _add_torque,
    _add_units,
    _add_velocity,
    _read_joint_order,
    _reorder_columns,
    _standard_units,
)
from mindyn.robots.loading import load_robot


def test_the_group_that_measures_a_signal_most_likely_is_chosen():
    plain, measured, target = group("q"), group("actual_pos"), group("q_target")
    assert choose_groups([plain, target], 2, ())["position"] is plain
    assert choose_groups([plain, measured], 2, ())["position"] is measured  # a word that says measured comes first
    wide = group("actual_q", 3)
    assert choose_groups([wide, group("actual_pos")], 2, ())["position"].count == 2  # then the robot's number of joints
    assert choose_groups([group("angle"), plain], 2, ())["position"] is plain  # then the likelier word
    assert choose_groups([group("q", 1)], 2, ()) == {}
    near, far = group("left_arm_vel"), group("base_arm_vel")
    chosen = choose_groups([group("left_arm_pos"), group("right_vel"), near], 2, ())
    assert chosen["velocity"] is near  # then the one that shares its words with the position's
    assert "velocity" not in choose_groups([group("left_arm_pos"), far], 2, ())
    unnamed = group("column_")
    assert choose_groups([unnamed], 2, ("pos",)) == {"position": unnamed}
    assert choose_groups([unnamed], 2, ()) == {}
    assert choose_groups([group("tau", 1)], 0, ())["torque"].count == 1


def test_lines_on_the_time():
    none = _add_time(EMPTY, Clock())
    assert none.value("rate_hz") == UNANSWERED
    item = _add_time(EMPTY, Clock(("t",), "ms", T, "100 Hz"))
    assert [(b.key, b.value, b.evidence) for b in item.lines] == [
        ("columns.time", "t", "100 Hz"),
        ("units.time", "ms", "100 Hz"),
    ]
    open_unit = _add_time(EMPTY, Clock(("t",), None, None, "odd"))
    assert open_unit.value("units.time") == UNANSWERED
    two = _add_time(EMPTY, Clock(("s", "ns"), "s", np.concatenate([T[:20], T]), "x"))
    assert two.value("columns.time") == ["s", "ns"]
    assert two.value("units.time") is None
    assert two.value("accept") == ["restarts"]


def test_lines_on_columns_and_their_order():
    chosen = {"position": group("q"), "torque": group("tau")}
    plain = _add_columns(EMPTY, Path("x.csv"), contents(chosen, head(), {"torque": "tau.csv"}), ("a", "b"))
    assert plain.value("columns.position") == "q{i}"
    assert plain.value("files.torque") == "tau.csv"
    assert plain.value("joints") is None
    wide = {"position": group("q", 4), "torque": group("tau", 3)}
    more = _add_columns(EMPTY, Path("x.csv"), contents(wide, head()), ("a", "b"))
    assert more.value("joints") == ["a", "b", "column 3", "column 4"]
    arrays = {"position": group("q", 2, "array"), "torque": group("tau", 2, "array")}
    listed = _add_columns(EMPTY, Path("x.csv"), contents(arrays, head()), ("a", "b"))
    assert listed.value("joints") == ["a", "b"]
    named = LogHead({}, {"name0": "b", "name1": "a", "mode": "on"}, {}, ())
    assert _add_columns(EMPTY, Path("x.csv"), contents(chosen, named), ("a", "b")).value("joints") == ["b", "a"]
    assert _add_columns(EMPTY, Path("x.csv"), contents(wide, head()), ()).value("joints") is None
    by_name = {"position": group("q", 2, "names"), "torque": group("tau", 2, "names")}
    assert _add_columns(EMPTY, Path("x.csv"), contents(by_name, named), ("a", "b")).value("joints") is None
    assert _read_joint_order(named, 2) == ["b", "a"]
    assert _read_joint_order(named, 3) is None
    listing = replace(group("q"), entry=("x", "y"))
    result = _add_columns(EMPTY, Path("x"), contents({"position": listing}, head()), ())
    assert result.value("columns.position") == ["x", "y"]


def test_values_are_put_into_the_robots_order():
    q = np.array([[1.0, 2.0, 3.0]])
    created = head(q1=q[:, 0], q2=q[:, 1], arr=q)
    assert_close(stack_values(group("q"), created), q[:, :2], EXACT)
    assert_close(stack_values(group("arr", 3, "array"), created), q, EXACT)
    first, second = PLANAR.primary_names
    swapped = EMPTY.with_line("joints", [second, "gripper", first], "")
    assert _reorder_columns(q, swapped, PLANAR).tolist() == [[3.0, 1.0]]
    assert _reorder_columns(q, swapped, None) is q
    assert _reorder_columns(q, EMPTY, PLANAR) is q
    other = EMPTY.with_line("joints", ["x", "y", "z"], "")
    assert _reorder_columns(q, other, PLANAR) is q


def test_units_that_formats_define():
    si = {"position": "rad", "velocity": "rad/s", "acceleration": "rad/s^2"}

    def of(position, torque):
        return _standard_units({"position": group(position), "torque": group(torque)})

    assert of("actual_q", "actual_current") == {**si, "torque": "A"}
    assert of("actual_q", "target_moment") == si
    assert of("state.q", "state.tau_J") == {**si, "torque": "N m"}
    assert of("joint.position", "joint.effort") == {**si, "torque": "N m"}
    for neither in (("q", "tau"), ("state.x", "state.tau_J"), ("joint.position", "tau"), ("q", "joint.effort")):
        assert of(*neither) == {}


def velocity_of(times, *, name="qd", unit="rad", seconds=T, robot=None, files=()):
    q = np.column_stack([np.sin(9 * T), np.cos(8 * T)])
    v = times * np.column_stack([9 * np.cos(9 * T), -8 * np.sin(8 * T)])
    created = head(q1=q[:, 0], q2=q[:, 1], **{f"{name}{k + 1}": v[:, k] for k in range(2)})
    chosen = {"position": group("q"), "velocity": group(name), "torque": group("tau")}
    draft = SidecarDraft("run", (DraftLine("columns.velocity", "x", ""),))
    return _add_velocity(draft, contents(chosen, created, dict.fromkeys(files, "v.csv"), seconds, robot), unit)


def test_lines_on_velocities():
    good = velocity_of(1.0)
    assert good.value("units.velocity") == "rad/s"
    assert velocity_of(180 / np.pi).value("units.velocity") == "deg/s"
    against = velocity_of(180 / np.pi, name="qd_rad_s_")
    assert against.value("units.velocity") == "deg/s"
    odd = velocity_of(3.0)
    assert odd.value("columns.velocity") is None
    backwards = velocity_of(-1.0)
    assert backwards.value("units.velocity") is None
    for unknown in ({"unit": None}, {"seconds": None}, {"files": ("velocity",)}):
        open_one = velocity_of(1.0, **unknown)
        assert open_one.value("units.velocity") == UNANSWERED
        velocity = velocity_of(1.0, name="qd_rad_s_", **unknown)
        assert velocity.value("units.velocity") == "rad/s"
    sliding = replace(PLANAR, joints=tuple(replace(joint, kind="prismatic") for joint in PLANAR.joints))
    assert velocity_of(1.0, unit="m", robot=sliding).value("units.velocity") == "m/s"
    none = _add_velocity(EMPTY, contents({"position": group("q")}, head()), "rad")
    assert none is EMPTY


def torque_line(name, peak, known=None, *, here=True):
    created = head(**{f"{name}{k + 1}": np.array([-peak, 0.1]) for k in range(2)})
    chosen = {"torque": group(name, ending=split_words(name)[-1:])}
    return _add_torque(EMPTY, contents(chosen, created, {} if here else {"torque": "tau.csv"}), known or {})


def test_lines_on_torques():
    plain = torque_line("tau", 30.0)
    assert plain.value("units.torque") == UNANSWERED
    assert plain.value("current_gains") is None
    named = torque_line("tau_Nm", 30.0)
    assert (named.value("units.torque"), named.lines[0].evidence) == ("N m", "from the name; up to 30")
    defined = torque_line("tau", 30.0, {"torque": "N m"})
    assert defined.value("units.torque") == "N m"
    for peak, unit in ((199.0, "A"), (201.0, "mA")):
        current = torque_line("motor_current", peak)
        assert current.value("units.torque") == unit
        assert current.value("current_gains") == UNANSWERED
    elsewhere = torque_line("motor_current", 5.0, here=False)
    assert elsewhere.value("units.torque") == UNANSWERED


def side_of(position, torque, q, unit="rad", robot=PLANAR, torque_unit="N m", extra=()):
    draft = EMPTY.with_line("units.torque", torque_unit, "")
    chosen = {"position": group(position), **{item: group(item) for item in extra}, "torque": group(torque)}
    return _add_side(draft, chosen, q, unit, robot)


def test_lines_on_sides():
    inside, far = np.array([[1.0, 1.0]]), np.array([[80.0, 80.0]])
    arm = build_limited_robot(2.0)
    both = side_of("q", "tau", inside, robot=arm, extra=("velocity",))
    assert (both.value("side.position"), both.value("side.velocity")) == ("joint", "joint")
    assert both.value("side.torque") == UNANSWERED
    assert (both.value("gears") is None) == bool(arm.drives)
    motor = side_of("motor_q", "motor_tau", far, robot=arm)
    assert (motor.value("side.position"), motor.value("side.torque")) == ("motor", "motor")
    assert side_of("motor_q", "tau", inside, robot=arm).value("side.position") == "joint"
    assert side_of("q", "tau", far, robot=arm).value("side.position") == UNANSWERED
    alone = side_of("joint_q", "effort", inside, robot=None)
    assert (alone.value("side.position"), alone.value("side.torque")) == ("joint", "joint")
    assert alone.value("gears") is None
    assert side_of("joint_q", "tau", far, robot=arm).value("side.position") == UNANSWERED
    unknown = side_of("q", "tau", inside, unit=None, robot=arm)
    assert unknown.value("side.position") == UNANSWERED
    for unit in ("A", "mA"):
        assert side_of("q", "motor_tau", inside, torque_unit=unit, robot=arm).value("side.torque") == "joint"
    bare = replace(arm, drives=())
    assert side_of("motor_q", "motor_tau", far, robot=bare).value("gears") == UNANSWERED
    assert side_of("state.q", "state.tau_J", inside, robot=bare).value("gears") is None


def test_lines_on_units_of_positions():
    robot = build_limited_robot(2.0)
    chosen = {"position": group("q"), "acceleration": group("qdd"), "torque": group("tau")}

    def of(peak, assumed=None, robot=robot, chosen=chosen):
        created = {name: np.array([0.0, peak]) for item in chosen.values() for name in item.columns}
        return _add_units(EMPTY, contents(chosen, head(**created), robot=robot), assumed)

    rad = of(1.5)
    assert (rad.value("units.position"), rad.value("units.acceleration")) == ("rad", "rad/s^2")
    unsure = of(80.0)
    assert (unsure.value("units.position"), unsure.value("units.acceleration")) == (UNANSWERED, UNANSWERED)
    assert of(80.0, "deg").value("units.acceleration") == "deg/s^2"
    assert of(1.5, "deg").value("units.position") == "rad"
    named = {**chosen, "position": group("q_deg", ending=("deg",))}
    assert of(80.0, chosen=named).lines[0].evidence.startswith("from the name; up to 80")
    states = {"position": group("actual_q"), "torque": group("actual_current")}
    assert of(1.5, chosen=states).lines[0].evidence.startswith("defined by the format; up to 1.5")
    mixed = load_robot("scara")
    four = {"position": group("q", 4), "torque": group("tau", 4)}
    (note,) = (note for note in of(0.1, robot=mixed, chosen=four).notes if "revolute and prismatic joints" in note)
    assert 'units.torque = { joint1 = "N m", joint2 = "N m", joint3 = "N", joint4 = "N m" }' in note
    assert rad.notes == ()


def test_errors_of_unreadable_logs_describe_their_content():
    log_head = LogHead({"a": T, "b": T}, {}, {}, ())
    assert find_missing_joints(Path("run.csv"), log_head, ["position", "torque"], ("j1", "j2"), {}) is None
    some = LogHead({"j1_pos": T, "j1_tau": T}, {}, {}, ())
    error = find_missing_joints(Path("run.csv"), some, ["position", "torque"], ("j1", "j2"), {})
    assert error.message.startswith("no columns of run.csv look like position and torque for each of the joints j1, j2")
    assert "its columns are: j1_pos, j1_tau" in error.message
    assert "--lock j2=0" in error.hint
    bare = find_missing_joints(Path("run.csv"), LogHead({}, {}, {}, (), is_named=False), ["torque"], (), {})
    assert bare.message == "no columns of run.csv look like torque; it has no column of numbers"


def test_a_draft_marks_open_questions_and_puts_tables_last():
    draft = SidecarDraft(
        "run.csv",
        (DraftLine("units.torque", UNANSWERED, "one of\nmany"), DraftLine("rows", [0, 9], "why")),
        ("a\nnote",),
    )
    assert draft.questions == ("units.torque",)
    lines = draft.toml().splitlines()
    assert lines[2] == "draft = true"
    assert lines[3] == "# note: a note"
    assert lines[4:] == ["rows = [0, 9]  # why", 'units.torque = "?"  # ?  one of many']
    assert "draft = true" not in draft.toml(confirmed=True)
    assert draft.to_metadata() == {"rows": [0, 9]}
    both = draft.with_line("units.torque", "N m", "").with_line("units.time", "s", "")
    assert both.to_metadata() == {"units": {"torque": "N m", "time": "s"}, "rows": [0, 9]}
    assert both.without_key("units").to_metadata() == {"rows": [0, 9]}
    assert both.without_key("units.time").value("units.torque") == "N m"
    assert [format_toml_value(item) for item in (True, 1.5, ["a", 2], {"k": False})] == [
        "true",
        "1.5",
        '["a", 2]',
        "{ k = false }",
    ]
