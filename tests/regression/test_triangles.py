"""R factors of blocks: as exact as a QR factorisation, whether columns are independent, dependent or almost so."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import DERIVATIVE, ORACLE, SAME_ALGEBRA, assert_close, assert_negligible

from mindyn.regression import information
from mindyn.regression.information import Triangle

WIDTH = 30


def append_rows(rows, block=1024):
    triangle = Triangle(rows.shape[1])
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        triangle.append([part[:, :7], part[:, 7:]])
    return triangle


def noisy(count=12_000):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, WIDTH)) * np.logspace(3, -3, WIDTH)
    rows[:, -1] = rows[:, :-1] @ rng.normal(size=WIDTH - 1) + rng.normal(size=count)
    return rows


def build_rows_of(name):
    """Rows of which some assumption of summed squares does not hold."""
    rows, rng = noisy(), np.random.default_rng(1)
    if name == "no noise":
        rows[:, -1] = rows[:, :-1].sum(axis=1)
    elif name == "dependent":
        rows[:, 9] = rows[:, 3] + 2 * rows[:, 4]
    elif name == "almost dependent":
        rows[:, 9] = rows[:, 3] + 1e-6 * rows[:, 9] / rows[:, 9].std() * rows[:, 3].std()
    elif name == "moves later":
        rows[:5000] *= 1e-5
    elif name == "zero at first":
        rows[:5000, 4] = 0.0
    elif name == "ill-conditioned":
        rows = (
            rng.normal(size=rows.shape) @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0] * np.logspace(0, -6, WIDTH)
        )
        rows = rows @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    return rows


CASES = (
    "noisy",
    "no noise",
    "dependent",
    "almost dependent",
    "moves later",
    "zero at first",
    "ill-conditioned",
    "one direction grows",
)


@pytest.mark.parametrize("case", CASES)
def test_squares_are_those_of_the_rows(case):
    rows = build_rows_of(case)
    triangle = append_rows(rows)
    sizes = np.linalg.norm(rows, axis=0)
    assert triangle.rows == len(rows)
    assert np.array_equal(triangle.R, np.triu(triangle.R))
    assert_close((triangle.R / sizes).T @ (triangle.R / sizes), (rows / sizes).T @ (rows / sizes), rtol=SAME_ALGEBRA)


@pytest.mark.parametrize("case", CASES)
def test_the_residual_of_a_column_equals_that_of_a_qr(case):
    """Pivots say which columns depend on others, and how much torque is noise: the root of rounding is too much."""
    rows = build_rows_of(case)
    sizes = np.linalg.norm(rows, axis=0)
    ours, theirs = (np.abs(np.diag(R)) / sizes for R in (append_rows(rows).R, np.linalg.qr(rows, mode="r")))
    # The direction of a dependent column is rounding error; later columns are compared without it.
    compared = slice(10 if case == "dependent" else None)
    assert_negligible((ours - theirs)[compared], 1.0, rtol=ORACLE)


def test_rows_that_grow_do_not_drown_those_that_known_the_rest():
    """One direction grows fourfold with every block: its squares are 1e13 times those of the first rows."""
    rows, rng = noisy(), np.random.default_rng(1)
    together = rng.normal(size=WIDTH) * np.logspace(3, -3, WIDTH)
    rows[1024:] = ((4.0 ** (np.arange(len(rows)) // 1024)) * rng.normal(size=len(rows)))[1024:, None] * together
    ours, theirs = (np.abs(np.diag(R)) for R in (append_rows(rows).R, np.linalg.qr(rows, mode="r")))
    assert_close(ours / theirs, np.ones(WIDTH), rtol=DERIVATIVE)


def test_most_blocks_need_no_reflections(monkeypatch):
    created = []
    reflected = information._reflect
    monkeypatch.setattr(information, "_reflect", lambda *given: created.append(1) or reflected(*given))
    for case in ("noisy", "no noise", "dependent", "almost dependent"):
        created.clear()
        append_rows(build_rows_of(case))
        assert len(created) == 1, case


def test_what_came_before_may_fade():
    rows = noisy(3000)
    triangle = Triangle(WIDTH)
    triangle.append([rows[:2000]])
    triangle.append([rows[2000:]], faded=0.5)
    weighted = np.concatenate([0.5 * rows[:2000], rows[2000:]])
    sizes = np.linalg.norm(weighted, axis=0)
    assert_close((triangle.R / sizes).T @ (triangle.R / sizes), (weighted / sizes).T @ (weighted / sizes), SAME_ALGEBRA)
