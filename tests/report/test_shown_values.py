"""Representations of values: short text, a page with plots."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from reported_arms import arm, estimate_of, log_of

import mindyn
from mindyn.foundation.pages.notebook_display import Page


@pytest.fixture(scope="module")
def values():
    robot = arm()
    log, estimate = log_of(robot, 1), estimate_of(robot)
    return {
        "robot": robot,
        "base": estimate.base,
        "model": mindyn.compile_model(robot),
        "log": log,
        "samples": estimate.samples_of(log),
        "estimate": estimate,
        "verdict": mindyn.validate(estimate, log),
    }


def test_reprs_are_short(values):
    for kind, value in values.items():
        assert len(repr(value)) <= 120, kind


def test_pages_are_self_contained(values, tmp_path):
    pages = [values["log"].plot(), values["estimate"].plot(), values["estimate"].plot(values["log"])]
    for page in pages:
        assert isinstance(page, Page)
        page.save(tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text()
        assert text.startswith("<!doctype html>")
        assert "Content-Security-Policy" in text
        framed = page._repr_html_()
        assert framed.startswith("<iframe")
        assert framed.count("<") == 2, "the page inside is an attribute"
    assert 'id="friction"' in pages[2].html
    assert 'id="friction"' not in pages[1].html, "without a log no speed is known"


def test_a_frame_has_the_numbers_of_the_estimate(values):
    estimate = values["estimate"]
    frame = estimate.to_frame()
    assert frame["name"].to_list() == list(estimate.names)
    np.testing.assert_array_equal(frame["value"].to_numpy(), estimate.beta)
    assert frame.columns == ["name", "value", "unit", "deviation", "low", "high", "state"]


def test_no_signature_holds_a_lambda():
    for name in mindyn.__all__:
        thing = getattr(mindyn, name)
        members = [thing, *(vars(thing).values() if inspect.isclass(thing) else ())]
        for value in members:
            if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, Exception)):
                assert "<lambda>" not in str(inspect.signature(value)), name
