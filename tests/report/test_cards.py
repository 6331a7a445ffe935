"""Notebooks show values as tables with a picture: complete, escaped, small, and readable on light and dark grounds."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from reported_arms import arm, estimate_of, log_of

import mindyn
from mindyn.identification.runs_with_loads import Payload
from mindyn.output.report.cards import CARDS

LARGEST = 100_000
HOSTILE = ["<script>alert('1')</script>", 'a"b&c']


@pytest.fixture(scope="module", params=["scara", "hostile"])
def values(request):
    names = HOSTILE if request.param == "hostile" else None
    robot = arm("planar2" if names else "scara", names)
    log, estimate = log_of(robot, 1), estimate_of(robot)
    limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=2.0, acceleration=9.0, effort=1e4)
    search, safety = mindyn.SearchSettings(1, 0.0), mindyn.SafetySettings(floor=None)
    design = mindyn.design_motion(robot, seconds=5.0, limits=limits, search=search, safety=safety, rng=0)
    phi = np.array([2.0, 0.02, -0.01, 0.1, 0.03, 0.03, 0.02, 0.0, 0.0, 0.0])
    return {
        "robot": robot,
        "base": estimate.base,
        "log": log,
        "experiment": mindyn.Experiment(robot, log),
        "estimate": estimate,
        "validation": mindyn.validate(estimate, log),
        "design": design,
        "feasibility": mindyn.check_feasible(estimate),
        "payload": Payload(robot.link_names[-1], phi, 1e-6 * np.eye(10), ()),
    }


def parse(value):
    """The card as XML, which fails if a name broke out of its place."""
    return ElementTree.fromstring(value._repr_html_())


def test_every_card_has_a_table_or_text_and_one_picture(values):
    assert {type(value) for value in values.values()} == set(CARDS)
    for kind, value in values.items():
        shown = parse(value)
        assert len(list(shown.iter("svg"))) == 1, kind
        assert list(shown.iter("table")) or list(shown.iter("pre")), kind
        assert len(value._repr_html_()) < LARGEST, kind


def test_cards_name_every_joint_or_parameter_and_its_numbers(values):
    joints, parameters = values["robot"].joint_names, values["base"].names
    inside = {
        "base": parameters,
        "estimate": parameters,
        "experiment": (),
        "payload": ("2",),
        "feasibility": ("consistent",),
    }
    for kind, value in values.items():
        words = {text.strip() for text in parse(value).itertext()}
        text = " ".join(words)
        assert all(name in text for name in inside.get(kind, joints)), kind
    errors = values["validation"].error.rmse
    assert all(f"{error:.3g}" in " ".join(parse(values["validation"]).itertext()) for error in errors)


def test_names_stay_text_and_nothing_runs_or_loads(values):
    for value in values.values():
        tags = {element.tag for element in parse(value).iter()}
        assert tags <= {
            "div",
            "strong",
            "ul",
            "li",
            "p",
            "pre",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "svg",
            "polyline",
            "rect",
            "circle",
            "text",
        }
        assert not any("href" in element.attrib or "src" in element.attrib for element in parse(value).iter())


def test_text_has_the_colour_of_the_notebook_and_curves_stand_out_on_light_and_dark(values):
    def luminance(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    for value in values.values():
        for element in parse(value).iter():
            if element.tag == "text":
                assert element.attrib["fill"] == "currentColor"
        for colour in set(re.findall("#[0-9a-f]{6}", value._repr_html_())):
            L = luminance(colour)
            assert 1.05 / (L + 0.05) >= 2.3, f"{colour} on white"
            assert (L + 0.05) / (luminance("#111111") + 0.05) >= 3, f"{colour} on black"


def test_long_values_stay_small():
    robot = arm("scara", [f"joint_{'x' * 3000}{k}" for k in range(4)])
    assert len(robot._repr_html_()) < LARGEST
    rng = np.random.default_rng(0)
    q = rng.standard_normal((200_000, 7))
    log = mindyn.log_from_arrays([f"j{k}" for k in range(7)], np.arange(200_000) / 1000, q, q)
    assert len(log._repr_html_()) < LARGEST
    assert len(replace(log, name="n" * 100_000)._repr_html_()) < LARGEST


def test_the_page_of_an_estimate_says_whether_it_is_consistent(values):
    page = values["estimate"].plot().html
    assert "was not checked" not in page
    assert "physically consistent" in page
