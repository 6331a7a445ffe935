"""Entries KEY=VALUE of the user: TOML values, bare words, and lists of numbers with or without brackets."""

import pytest

from mindyn.cli.log_command import parse_entries


@pytest.mark.parametrize("text", ["[0.1, -2, 3e-1]", "0.1, -2, 3e-1", "0.1 -2 3e-1", " 0.1,-2,3e-1 "])
def test_gains_need_no_brackets(text):
    assert parse_entries([f"current_gains={text}"]) == {"current_gains": [0.1, -2, 0.3]}


@pytest.mark.parametrize(
    ("text", "value"),
    [("N m", "N m"), ("'N m'", "N m"), ("0.5", 0.5), ("true", True), ("", ""), ("1.2.3, 4", "1.2.3, 4")],
)
def test_other_values_are_toml_or_words(text, value):
    assert parse_entries([f"key={text}"]) == {"key": value}
