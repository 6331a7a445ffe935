"""Direct calls take plain arrays and leave everything else alone; what they take, they compute like the general way."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from closeness import assert_close
from raising import raises
from references import TOLERANCE

from mindyn.foundation.errors import Code, InputError
from mindyn.kernels.calling import NOT_HANDLED
from mindyn.kernels.kernel import Kernel

SAME = TOLERANCE[np.float64]


@pytest.fixture(scope="module")
def kernel():
    """y (3,), Z (2, 3) of x (3,), A (2, 3) and p (2,), which is one for the whole batch; both widths compiled."""
    x, A, p = ca.SX.sym("x", 3), ca.SX.sym("A", 2, 3), ca.SX.sym("p", 2)
    compiled = Kernel(
        ca.Function("f", [x, A, p], [ca.sin(x) * p[0] + A.T @ p, A * p[1]], ["x", "A", "p"], ["y", "Z"]),
        shared=["p"],
    )
    compiled.code(1)
    compiled.compile()
    return compiled


@pytest.fixture(scope="module")
def taken():
    """Whether this interpreter lets calls be direct at all."""
    x = ca.SX.sym("x", 2)
    compiled = Kernel(ca.Function("f", [x], [x], ["x"], ["y"]))
    compiled.code(1)
    return compiled._direct.call(np.zeros(2), np.zeros(2)) == 0


def arrays(batch, rng):
    return [rng.normal(size=(*batch, 3)), rng.normal(size=(*batch, 2, 3)), rng.normal(size=2)]


def expected(x, A, p):
    y = np.sin(x) * p[0] + np.einsum("...ij,i->...j", A, p)
    return y, np.broadcast_to(A * p[1], (*y.shape[:-1], 2, 3))


@pytest.mark.parametrize("batch", [(), (1,), (5,), (300,), (2, 3), (4, 1, 3)])
def test_direct_calls_handle_plain_arrays(kernel, taken, batch):
    given = arrays(batch, np.random.default_rng(0))
    y, Z = np.empty((*batch, 3)), np.empty((*batch, 2, 3))
    assert kernel._direct.call(*given, y, Z) == (0 if taken else NOT_HANDLED)
    for result, reference in zip(kernel(*given), expected(*given), strict=True):
        assert_close(result, reference, SAME)
    if taken:
        assert (y == kernel(*given)[0]).all()
        assert (kernel(*given)[1] == Z).all()


def test_one_sample_of_an_input_serves_a_whole_batch(kernel):
    x, A, p = arrays((6,), np.random.default_rng(1))
    for given in ((x, A[0], p), (x[0], A, p)):
        for result, reference in zip(kernel(*given), expected(*given), strict=True):
            assert_close(result, reference, SAME)


CHANGES = {
    "a list": lambda a: a.tolist(),
    "another type": lambda a: a.astype(np.float32),
    "foreign bytes": lambda a: a.astype(">f8"),
    "a subclass": lambda a: a.view(np.matrix) if a.ndim == 2 else np.ma.masked_array(a),
    "gaps": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "columns first": lambda a: np.asfortranarray(np.stack([a, a]))[0],
    "one number less": lambda a: np.ascontiguousarray(a[..., :-1]),
    "one dimension more": lambda a: np.stack([a, a]),
    "a number": lambda a: float(a.flat[0]),
    "none": lambda _: None,
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("place", range(5))
def test_direct_calls_decline_other_arrays_and_do_not_change_them(kernel, name, place):
    given = [*arrays((4,), np.random.default_rng(2)), np.full((4, 3), 7.0), np.full((4, 2, 3), 7.0)]
    given[place] = CHANGES[name](given[place])
    assert kernel._direct.call(*given) == NOT_HANDLED
    for array in given[3:]:
        if isinstance(array, np.ndarray):
            assert (np.asarray(array) == 7.0).all()


def test_direct_calls_decline_wrong_counts_batches_overlaps_and_read_only_results(kernel):
    x, A, p = arrays((4,), np.random.default_rng(3))
    y, Z = np.empty((4, 3)), np.empty((4, 2, 3))
    memory = np.zeros(40)
    fixed = y.copy()
    fixed.flags.writeable = False
    empty = np.empty((0, 3)), np.empty((0, 2, 3))
    for given in (
        (),
        (x, A, p, y),
        (x, A, p, y, Z, y),
        (x[:3].copy(), A, p, y, Z),
        (x, A, np.stack([p] * 4), y, Z),
        (x, A, p, y[0], Z),
        (x, A, p, y, Z[0]),
        (x, A, p, x, Z),
        (x, A, p, fixed, Z),
        (memory[:12].reshape(4, 3), A, p, memory[11:23].reshape(4, 3), Z),
        (x, A, p, memory[:12].reshape(4, 3), memory[11:35].reshape(4, 2, 3)),
        (*empty, p, *(array.copy() for array in empty)),
    ):
        assert kernel._direct.call(*given) == NOT_HANDLED


def test_direct_calls_handle_adjacent_arrays(kernel, taken):
    x, A, p = arrays((4,), np.random.default_rng(4))
    memory = np.zeros(48)
    memory[:12] = x.ravel()
    y, Z = memory[12:24].reshape(4, 3), memory[24:].reshape(4, 2, 3)
    assert kernel._direct.call(memory[:12].reshape(4, 3), A, p, y, Z) == (0 if taken else NOT_HANDLED)


@pytest.mark.parametrize("batch", [(), (9,), (300,)])
def test_not_finite_input_raises_with_its_name(kernel, batch):
    x, A, p = arrays(batch, np.random.default_rng(5))
    A[(-1,) * A.ndim] = np.inf
    with raises(InputError, Code.NOT_FINITE, "A"):
        kernel(x, A, p)
