"""JSON has no arrays, infinities or NaN."""

from __future__ import annotations

import json

import numpy as np

from mindyn.foundation.json_values import to_json_value


def test_results_are_strict_json():
    value = {
        "array": np.array([[1.5, np.inf], [np.nan, -np.inf]]),
        "counts": np.arange(2),
        "marks": np.array([True, False]),
        "ends": (float("nan"), (2.0, "a")),
        "none": None,
        "flag": True,
    }
    text = json.dumps(to_json_value(value), allow_nan=False)
    assert json.loads(text) == {
        "array": [[1.5, None], [None, None]],
        "counts": [0, 1],
        "marks": [True, False],
        "ends": [None, [2.0, "a"]],
        "none": None,
        "flag": True,
    }
