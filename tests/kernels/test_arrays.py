"""Kernels accept arrays of real numbers of any batch shape, strides and type, and name a wrong input."""

from __future__ import annotations

import threading

import casadi as ca
import numpy as np
import pytest
from closeness import assert_close
from raising import raises
from references import TOLERANCE, evaluate, random_inputs
from serial_arm import inverse_dynamics, puma_like

from mindyn.foundation.errors import Code, InputError, UnknownNameError
from mindyn.kernels.kernel import Kernel

FUNCTION = inverse_dynamics(puma_like())
SAME = TOLERANCE[np.float64]


@pytest.fixture(scope="module")
def kernel():
    return Kernel(FUNCTION)


@pytest.fixture(scope="module")
def batch():
    """Inputs (24, 6) and their torques."""
    inputs = random_inputs(FUNCTION, (24,))
    return inputs, evaluate(FUNCTION, *inputs)[0]


@pytest.mark.parametrize("shape", [(24,), (1, 24), (24, 1), (2, 12), (3, 2, 4), (2, 3, 2, 2)])
def test_any_batch_shape(kernel, batch, shape):
    inputs, tau = batch
    assert_close(kernel(*(a.reshape(*shape, 6) for a in inputs)), tau.reshape(*shape, 6), SAME)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_one_sample_of_any_shape(kernel, batch, shape):
    inputs, tau = batch
    assert_close(kernel(*(a[0].reshape(*shape, 6) for a in inputs)), tau[0].reshape(*shape, 6), SAME)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5)])
def test_zero_size_batches_give_empty_results(kernel, shape):
    assert kernel(*[np.zeros((*shape, 6))] * 3).shape == (*shape, 6)


def test_batch_dimensions_broadcast(kernel, batch):
    (q, qd, qdd), _ = batch
    q, qd, qdd = q[:4, None], qd[:3], qdd[0]
    full = [np.broadcast_to(a, (4, 3, 6)).reshape(12, 6) for a in (q, qd, qdd)]
    assert_close(kernel(q, qd, qdd), evaluate(FUNCTION, *full)[0].reshape(4, 3, 6), SAME)


LAYOUTS = {
    "every second sample": lambda a: np.repeat(a, 2, axis=0)[::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "columns of a wider table": lambda a: np.hstack([a, a, a])[:, 6:12],
    "fortran order": np.asfortranarray,
    "every second column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
    "big-endian": lambda a: a.astype(">f8"),
    "unaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float64).reshape(a.shape),
    "long double": lambda a: a.astype(np.longdouble),
    "nested lists": lambda a: a.tolist(),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_any_memory_layout(kernel, batch, name):
    inputs, tau = batch
    assert_close(kernel(*(LAYOUTS[name](a) for a in inputs)), tau, SAME)


def test_integer_and_boolean_inputs_are_numbers(kernel):
    inputs = [np.arange(18).reshape(3, 6) % 5, np.ones((3, 6), bool), np.arange(18, dtype=np.int8).reshape(3, 6)]
    assert_close(kernel(*inputs), evaluate(FUNCTION, *(a.astype(float) for a in inputs))[0], SAME)


def test_out_with_any_strides_is_filled_and_returned(kernel, batch):
    inputs, tau = batch
    for out in (np.empty((24, 6)), np.empty((24, 12))[:, 3:9], np.empty((48, 6))[::2], np.empty((6, 24)).T):
        assert kernel(*inputs, out=out) is out
        assert_close(out, tau, SAME)


def test_out_may_be_an_input(kernel, batch):
    inputs, tau = batch
    q = inputs[0].copy()
    kernel(q, *inputs[1:], out=q)
    assert_close(q, tau, SAME)


def test_out_may_overlap_an_input_by_half(kernel, batch):
    inputs, tau = batch
    memory = np.zeros((36, 6))
    memory[:24] = inputs[0]
    kernel(memory[:24], *inputs[1:], out=memory[12:])
    assert_close(memory[12:], tau, SAME)


def test_several_outputs_come_as_a_tuple_into_out_too():
    x = ca.SX.sym("x", 2)
    kernel = Kernel(ca.Function("f", [x], [x * x, x + 1], ["x"], ["square", "next"]))
    values = np.arange(10.0).reshape(5, 2)
    out = (np.empty((5, 2)), np.empty((5, 2)))
    square, following = kernel(values, out=out)
    assert square is out[0]
    assert following is out[1]
    assert_close(square, values**2, 0.0)
    assert_close(following, values + 1, 0.0)


def test_threads_share_a_batch(kernel):
    inputs = random_inputs(FUNCTION, (5003,))
    alone = kernel(*inputs)
    for threads in (2, 3, 4, 64):
        assert (kernel(*inputs, threads=threads) == alone).all()


def test_four_threads_call_one_kernel_at_once():
    kernel = Kernel(FUNCTION)
    sets = [random_inputs(FUNCTION, (501,), seed) for seed in range(4)]
    references = [Kernel(FUNCTION)(*inputs) for inputs in sets]
    failures = []

    def work(k):
        for _ in range(20):
            batched = kernel(*sets[k])
            single = kernel(*(a[7] for a in sets[k]))
            if (batched != references[k]).any() or not np.allclose(single, references[k][7], rtol=0, atol=1e-10):
                failures.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_bound_buffers_compute_in_place(kernel, batch):
    inputs, tau = batch
    bound = kernel.bind()
    for k in range(5):
        for buffer, array in zip(bound.inputs, inputs, strict=True):
            buffer[:] = array[k]
        bound()
        assert_close(bound["tau"], tau[k], SAME)
    assert bound["q"] is bound.inputs[0]


def test_a_bound_call_takes_angles_out_of_range(kernel):
    bound = kernel.bind()
    bound["q"][:] = 1e7
    bound()
    assert_close(bound["tau"], FUNCTION(*bound.inputs).full().ravel(), SAME)


WRONG = {
    "five columns": (lambda a: a[:, :5], Code.WRONG_SHAPE, "qd"),
    "scalar": (lambda _: 1.0, Code.WRONG_SHAPE, "qd"),
    "other batch": (lambda a: a[:7], Code.WRONG_SHAPE, "q"),
    "complex": (lambda a: a + 1j, Code.WRONG_TYPE, "qd"),
    "text": (lambda _: "fast", Code.WRONG_TYPE, "qd"),
    "ragged": (lambda _: [[1.0], [1.0, 2.0]], Code.WRONG_TYPE, "qd"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_raise_with_the_input_name(kernel, batch, name):
    (q, qd, qdd), _ = batch
    spoil, code, subject = WRONG[name]
    with raises(InputError, code, subject):
        kernel(q, spoil(qd), qdd)


def test_a_wrong_number_of_arguments_raises(kernel, batch):
    with raises(InputError, Code.WRONG_SHAPE, kernel.program.name):
        kernel(*batch[0][:2])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [None, 1, 5, 24])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nan_and_infinity_raise_with_their_index(value, count, dtype):
    kernel = Kernel(FUNCTION, dtype=dtype)
    inputs = [np.zeros((6,) if count is None else (count, 6), dtype) for _ in range(3)]
    inputs[2][..., 4][() if count is None else count - 1] = value
    place = "[4]" if count is None else f"[{count - 1}, 4]"
    with raises(InputError, Code.NOT_FINITE, "qdd") as caught:
        kernel(*inputs)
    assert place in str(caught.value)


def test_nan_raises_in_an_input_without_effect(kernel):
    q = np.zeros((9, 6))
    q[8, 0] = np.nan  # the first joint is vertical: its angle does not matter
    with raises(InputError, Code.NOT_FINITE, "q"):
        kernel(q, q * 0, np.zeros((9, 6)))


def test_nan_in_a_shared_input_raises():
    arm = puma_like()
    kernel = Kernel(inverse_dynamics(arm, phi_as_input=True), shared=("phi",))
    phi = arm.phi.copy()
    phi[59] = np.nan
    with raises(InputError, Code.NOT_FINITE, "phi"):
        kernel(*[np.zeros((4, 6))] * 3, phi)


def test_huge_finite_inputs_are_accepted():
    x = ca.SX.sym("x", 4)
    kernel = Kernel(ca.Function("f", [x], [x * 1e-300], ["x"], ["y"]))
    assert_close(kernel(np.full((16, 4), 1e308)), np.full((16, 4), 1e8), SAME)


def test_unchecked_kernels_pass_nan_through():
    kernel = Kernel(FUNCTION, check_finite=False)
    inputs = [np.zeros((9, 6)) for _ in range(3)]
    inputs[2][4, 5] = np.nan
    assert np.isnan(kernel(*inputs)).any(axis=1).tolist() == [k == 4 for k in range(9)]


BAD_OUT = {
    "wrong shape": lambda: np.empty((23, 6)),
    "wrong type": lambda: np.empty((24, 6), np.float32),
    "read-only": lambda: np.broadcast_to(np.zeros(6), (24, 6)),
    "no array": lambda: [0.0] * 6,
}


@pytest.mark.parametrize("name", BAD_OUT)
def test_wrong_out_raises(kernel, batch, name):
    with raises(InputError, Code.NOT_WRITABLE if name == "read-only" else Code.WRONG_SHAPE, "out"):
        kernel(*batch[0], out=BAD_OUT[name]())


def test_shared_inputs_have_no_batch():
    kernel = Kernel(inverse_dynamics(puma_like(), phi_as_input=True), shared=("phi",))
    with raises(InputError, Code.WRONG_SHAPE, "phi"):
        kernel(*[np.zeros((4, 6))] * 3, np.zeros((4, 60)))


def test_unknown_names_list_the_known_ones():
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "phi"):
        Kernel(FUNCTION, shared=("phi",))
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "Y"):
        Kernel(FUNCTION, compact=("Y",))


def test_only_float64_and_float32():
    with raises(InputError, Code.WRONG_TYPE, "dtype"):
        Kernel(FUNCTION, dtype=np.float16)
