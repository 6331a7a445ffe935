"""Names with arbitrary characters survive every file unchanged or are rejected by name; none becomes code."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from closeness import assert_close
from raising import raises

import mindyn
from mindyn.foundation.algebra.inertia import phi_about_origin
from mindyn.foundation.errors import Code, ExportError
from mindyn.foundation.escaping import c_comment, fill_template, toml_key, toml_string
from mindyn.foundation.printable import make_printable
from mindyn.logs.log import write_log
from mindyn.logs.log_errors import LogError
from mindyn.output.export.mjcf_writer import robot_to_mjcf
from mindyn.output.export.toml_writer import robot_to_toml
from mindyn.output.export.urdf_writer import robot_to_urdf

PIECES = [
    *(
        '"',
        "'",
        '"""',
        "\\",
        "\n",
        "\r",
        "\t",
        " ",
        "\0",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\u2028",
        "\u202e",
        "\ufeff",
        "\ud800",
    ),
    *(
        "{joint}",
        "{i}",
        "{0.__class__}",
        "{",
        "}",
        "@DECLARED@",
        "@NAME@",
        "%s",
        "${X}",
        "$(id)",
        "`id`",
        "=",
        "#",
        ";",
        ",",
    ),
    *(
        "]",
        "[[drive]]",
        "*/",
        "/*",
        "//",
        "??/",
        "<",
        ">",
        "&amp;",
        "&",
        "-->",
        "]]>",
        "</script>",
        "../",
        "a",
        "1",
        "é",
        "関節",
    ),
]
MARK = "EVIL"


def hostile_names(seed: int, count: int) -> list[str]:
    """Return distinct names with a mark that must never be outside a string or a comment."""
    rng = np.random.default_rng(seed)
    choices = [[PIECES[k] for k in rng.integers(0, len(PIECES), rng.integers(1, 6))] for _ in range(count)]
    return [
        f"{''.join(pieces[: len(pieces) // 2])}{MARK}{k}{''.join(pieces[len(pieces) // 2 :])}"
        for k, pieces in enumerate(choices)
    ]


def rename_arm(names: list[str]) -> mindyn.Robot:
    """Return the two-link arm with these names of robot, joints and links."""
    arm = mindyn.load_robot("planar2")
    phi = phi_about_origin(1.0, np.array([0.1, 0.0, 0.0]), 0.01 * np.eye(3))
    links = [replace(link, name=name, phi=phi) for link, name in zip(arm.links, names[3:5], strict=True)]
    first = replace(arm.joints[0], name=names[1], child=names[3])
    second = replace(arm.joints[1], name=names[2], parent=names[3], child=names[4])
    drives = [replace(drive, joint=name, coupling={}) for drive, name in zip(arm.drives, names[1:3], strict=True)]
    return replace(arm, name=names[0], joints=(first, second), links=tuple(links), drives=tuple(drives), frames=())


SEEDS = range(120)


@pytest.mark.parametrize("seed", SEEDS)
def test_robot_files_preserve_names_or_reject_them(tmp_path, seed):
    robot = rename_arm(hostile_names(seed, 5))
    plain = replace(robot, drives=())
    for suffix, write, expected in (
        (".toml", robot_to_toml, robot),
        (".urdf", lambda r: robot_to_urdf(r, force=True), plain),
    ):
        try:
            text = write(expected)
        except ExportError as error:
            assert error.code is Code.INVALID_VALUE  # noqa: PT017 - both outcomes are right
            assert MARK in error.subject  # noqa: PT017
            continue
        (tmp_path / f"arm{suffix}").write_text(text, encoding="utf-8")
        back = mindyn.load_robot(tmp_path / f"arm{suffix}", snap=False)
        names = [(arm.name, arm.joint_names, arm.link_names) for arm in (back, expected)]
        assert names[0] == names[1]


@pytest.mark.parametrize("seed", range(0, 120, 3))
def test_mjcf_preserves_names_or_rejects_them(tmp_path, seed):
    pytest.importorskip("mujoco")
    robot = replace(rename_arm(hostile_names(seed, 5)), drives=())
    with suppress(ExportError):
        (tmp_path / "arm.xml").write_text(robot_to_mjcf(robot, force=True), encoding="utf-8")
        back = mindyn.load_robot(tmp_path / "arm.xml", snap=False)
        assert (back.name, back.joint_names, back.link_names) == (robot.name, robot.joint_names, robot.link_names)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("seed", range(0, 120, 2))
def test_logs_with_any_joint_names_can_be_read_back(tmp_path, seed, suffix):
    robot = rename_arm(hostile_names(seed, 5))
    t = np.arange(300) / 100
    signals = {
        "position": np.column_stack([np.sin(t), np.cos(2 * t)]),
        "torque": np.column_stack([np.cos(t), np.sin(3 * t)]),
    }
    try:
        write_log(robot, t, signals, tmp_path / f"log{suffix}", dict.fromkeys(signals, "joint"))
    except ExportError as error:
        assert error.code is Code.INVALID_VALUE  # noqa: PT017
        assert not list(tmp_path.iterdir())
        return
    log = mindyn.read_log(tmp_path / f"log{suffix}", robot)
    assert log.joint_names == robot.joint_names
    assert_close(log.q, signals["position"], 0.0)
    assert_close(log.tau, signals["torque"], 0.0)


def outside_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


@pytest.mark.parametrize("seed", range(0, 120, 4))
def test_no_name_becomes_code(tmp_path, seed):
    robot = rename_arm(hostile_names(seed, 5))
    model = mindyn.compile_model(robot)
    paths = model.write_c(tmp_path / "arm.c", "gravity")
    sources = [*(path.read_text() for path in paths), model.cuda_source("gravity")]
    for text in sources:
        assert text.isascii()
        assert MARK not in outside_comments(text)
    mindyn.write_ros2_package(model, tmp_path / "package", functions="gravity")
    readme = (tmp_path / "package" / "README.md").read_text()
    assert readme.count("void package_gravity(") == 1
    assert MARK not in outside_comments((tmp_path / "package" / "src" / "package.c").read_text())


@pytest.mark.parametrize("name", ["a\nb.c", 'a".c', "a\\b.c", "a?.c"])
def test_a_header_that_c_cannot_include_is_rejected(tmp_path, name):
    with raises(ExportError, Code.INVALID_VALUE, name.replace(".c", ".h")):
        mindyn.compile_model(mindyn.load_robot("planar2")).write_c(tmp_path / name, "gravity")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", SEEDS)
def test_toml_preserves_texts(seed):
    for name in hostile_names(seed, 3):
        with suppress(ExportError):
            assert tomllib.loads(f"{toml_key(name)} = {toml_string(name)}") == {name: name}


def test_templates_are_filled_once():
    assert fill_template("@A@ @B@ @C@", {"A": "@B@", "B": "x"}) == "@B@ x @C@"


def test_the_terminal_receives_no_control_characters():
    assert make_printable("a\x1b[2J\n\u202eb\u00e9") == "a\\x1b[2J\\n\\u202eb\u00e9"
    robot = rename_arm([f"{k}\x1b[31m\n" for k in range(5)])
    assert "\x1b" not in str(robot)


def test_text_cannot_end_a_comment():
    assert "*/" not in c_comment("a*/b") + c_comment("*") + c_comment("**//")


@pytest.mark.parametrize("pattern", ["{i:1000000000}", "{joint.__class__}", "{joint:>999999999}", "{0}", "{", "{i!r}"])
def test_patterns_of_a_sidecar_format_nothing(tmp_path, pattern):
    (tmp_path / "log.csv").write_text("t,q1,q2\n0,0,0\n")
    columns = {"time": "t", "position": pattern, "torque": "q{i}"}
    with raises(LogError, Code.INVALID_VALUE, "columns.position"):
        mindyn.read_log(
            tmp_path / "log.csv", mindyn.load_robot("planar2"), columns=columns, side="joint", units={"time": "s"}
        )
