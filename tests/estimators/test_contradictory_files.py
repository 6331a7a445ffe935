"""An estimate file that contradicts itself is rejected; what it does not have comes back as nothing.

Private functions are tested directly: inputs at their limits are rare, or slow to reach, through public names.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises
from stand_in import PARTS, stand_in

from mindyn.foundation.errors import Code, InputError
from mindyn.identification.estimators.estimate import load_estimate
from mindyn.identification.estimators.estimate_files import _find_disagreements, robot_from_record, robot_record
from mindyn.identification.estimators.estimate_records import Physical
from mindyn.robots.loading import load_robot


def test_a_file_of_another_format_raises_an_error_that_names_it(tmp_path):
    for text in ('{"format": "mindyn estimate 99"}', '{"format": 4}', "{}"):
        (tmp_path / "e.json").write_text(text)
        with raises(InputError, Code.WRONG_FORMAT, str(tmp_path / "e.json")):
            load_estimate(tmp_path / "e.json")


PHYSICAL = {"labels": ["x"], "values": [1.0], "unconstrained": [1.0, 2.0], "ends": [[0, 0], [1, 1]]}


def content(**changes):
    values = {
        "beta": [1.0, 2.0],
        "covariance": [[1.0, 0.0], [0.0, None]],
        "residuals": [{}],
        "shifts": None,
        "jackknife": None,
        "physical": None,
        "joint_weights": [1.0],
        "dropped": [],
        "unidentifiable": ["b"],
    }
    made = stand_in(**{**values, **changes})
    return list(
        _find_disagreements(
            {"names": ["a", "b"], **{name: vars(part) for name, part in vars(made).items() if name in PARTS}}
        )
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"beta": [1.0]},
        {"covariance": [[1.0, 0.0]]},
        {"covariance": [[1.0], [0.0]]},
        {"covariance": [[-1.0, 0.0], [0.0, None]]},
        {"covariance": [[1.0, 0.0], [0.0, 1.0]]},  # the second is unidentifiable
        {"covariance": [[None, 0.0], [0.0, None]]},
        {"covariance": [[1.0, 0.5], [0.5, 1.0]], "unidentifiable": ["a"]},
        {"covariance": [[1.0, 0.5], [0.4, 1.0]], "unidentifiable": []},
        {"covariance": [[1.0, 1.5], [1.5, 1.0]], "unidentifiable": []},
        {"covariance": [[1.0, 0.0], [0.0, 1.0]], "unidentifiable": [], "shifts": [[1.1, 0.0]]},
        {"shifts": [[1.0]]},
        {"jackknife": {"significant": [1.0], "inflated": [1.0, 1.0]}},
        {"physical": PHYSICAL | {"ends": [[0, 0]]}},
        {"physical": PHYSICAL | {"labels": []}},
        {"physical": PHYSICAL | {"unconstrained": [1.0]}},
        {"dropped_ends": [[0, 0]]},
        {"dropped_ends": [[0], [1]]},
        {"joint_weights": [1.0, 2.0]},
        {"unidentifiable": ["z"]},
        {"dropped": ["y"]},
        {"dropped": ["a"], "covariance": [[0.0, 0.0], [0.0, None]]},
        {"dropped": ["a"], "beta": [0.0, 2.0]},
    ],
)
def test_what_contradicts_itself_is_named(changes):
    assert len(content(**changes)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shifts": [[0.5, 0.0]]},
        {"jackknife": {"significant": [1.0, 1.0], "inflated": [1.0, 1.0]}},
        {"physical": PHYSICAL},
        {"dropped_ends": [[0, 0], [1, 1]]},
        {"joint_weights": None, "residuals": []},
        {"dropped": ["a"], "beta": [0.0, 2.0], "covariance": [[0.0, 0.0], [0.0, None]]},
    ],
)
def test_what_agrees_is_sound(changes):
    assert content(**changes) == []


def test_parts_of_an_estimate_that_it_has_not_come_back_as_nothing():
    without = Physical(("a",), np.ones(1), np.zeros(1), ("link",))
    assert Physical.from_dict(without.to_dict()).ends is None
    assert Physical.from_dict(without.to_dict()).prior_fractions is None
    ends = np.array([[0.5], [np.nan]])
    held = Physical.from_dict(replace(without, ends=ends, prior_fractions=np.array([0.25])).to_dict())
    assert np.array_equal(held.ends, ends, equal_nan=True)
    assert held.prior_fractions.tolist() == [0.25]


def test_the_home_of_a_linkage_is_kept_in_the_record_of_its_robot():
    linkage, arm = load_robot("slider_crank"), load_robot("planar2")
    assert_close(robot_from_record(robot_record(linkage)).home, linkage.home, SAME_ALGEBRA)
    assert robot_from_record(robot_record(arm)).home is None
