"""`Model.to_gpu` on the device that CuPy finds: the numbers and errors of the CPU, in both precisions."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError

cupy = pytest.importorskip("cupy", reason="no CuPy on this machine")
try:
    DEVICES = cupy.cuda.runtime.getDeviceCount()
except cupy.cuda.runtime.CUDARuntimeError:
    DEVICES = 0
pytestmark = pytest.mark.skipif(DEVICES == 0, reason="CuPy finds no CUDA device")

SINGLE = 1e-5
"""float32 beside float64: some tens of its last digit."""
NAMES = ("inverse_dynamics", "inertia_matrix", "forward_dynamics", "regressor", "standard_regressor", "coriolis")


@pytest.fixture(scope="module", params=["puma560", "panda", "stanford", "palletiser"])
def model(request):
    robot = mindyn.load_robot(request.param)
    return mindyn.compile_model(robot, base=mindyn.base_parameters(robot) if robot.loops else None)


def batch(model, name, shape):
    """Random inputs of the equation: moderate torques in place of accelerations where it takes those."""
    rng = np.random.default_rng(5)
    return [rng.uniform(-1, 1, (*shape, *sample_shape)) for sample_shape in model.kernel(name).input_shapes]


@pytest.mark.parametrize("name", NAMES)
def test_gpu_results_equal_cpu_results(model, name):
    inputs = batch(model, name, (3, 111))
    expected = model.kernel(name)(*inputs)
    condition = np.linalg.cond(model.inertia_matrix(inputs[0])).max() if name == "forward_dynamics" else 1.0
    gpu = model.to_gpu()
    double = gpu(name, *map(cupy.asarray, inputs))
    assert double.dtype == np.float64
    assert_close(double.get(), expected, SAME_ALGEBRA * condition)
    single = gpu(name, *(cupy.asarray(array, dtype=cupy.float32) for array in inputs))
    assert single.dtype == np.float32
    assert_close(single.get(), expected, SINGLE * condition)


def test_results_are_written_to_out(model):
    inputs = batch(model, "inverse_dynamics", (40,))
    given = [cupy.asarray(array) for array in inputs]
    out = cupy.empty_like(given[0])
    assert model.to_gpu()("inverse_dynamics", *given, out=out) is out
    assert_close(out.get(), model.inverse_dynamics(*inputs), SAME_ALGEBRA)
    assert model.to_gpu()("inverse_dynamics", *(array[:0] for array in given)).shape == (0, inputs[0].shape[1])


def test_parameters_are_shared_by_all_samples():
    robot = mindyn.load_robot("puma560")
    model = mindyn.compile_model(robot, parameters="input")
    q, qd, qdd = np.random.default_rng(1).uniform(-1, 1, (3, 50, 6))
    phi = np.array([link.phi for link in robot.links])
    phi = phi.reshape(model.kernel("inverse_dynamics").input_shapes[-1])
    tau = model.to_gpu()("inverse_dynamics", *map(cupy.asarray, (q, qd, qdd, phi)))
    assert_close(tau.get(), mindyn.compile_model(robot).inverse_dynamics(q, qd, qdd), SAME_ALGEBRA)


def test_wrong_arrays_raise_with_their_name(model):
    gpu, given = model.to_gpu(), [cupy.asarray(array) for array in batch(model, "inverse_dynamics", (4,))]
    q, qd, qdd = given
    for arrays, code, subject in (
        ((q, qd), Code.WRONG_SHAPE, "inverse_dynamics"),
        ((q[:, 1:], qd, qdd), Code.WRONG_SHAPE, "q"),
        ((q, qd[:2], qdd), Code.WRONG_SHAPE, "inverse_dynamics"),
        ([array.astype(cupy.int32) for array in given], Code.WRONG_TYPE, "int32"),
    ):
        with raises(InputError, code, subject):
            gpu("inverse_dynamics", *arrays)
    with raises(InputError, Code.WRONG_SHAPE, "out"):
        gpu("inverse_dynamics", *given, out=cupy.empty((4, 1)))


def test_tensors_of_pytorch_stay_tensors_and_have_gradients(model):
    torch = pytest.importorskip("torch", reason="no PyTorch on this machine")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no CUDA device")
    from mindyn.kernels.torch import make_differentiable

    inputs = batch(model, "inverse_dynamics", (20,))
    there = [torch.tensor(array, device="cuda", requires_grad=True) for array in inputs]
    here = [torch.tensor(array, requires_grad=True) for array in inputs]
    tau = model.to_gpu()("inverse_dynamics", *there)
    assert tau.device.type == "cuda"
    assert_close(tau.cpu().numpy(), model.inverse_dynamics(*inputs), SAME_ALGEBRA)
    if model.robot.loops:
        return
    for tensors in (there, here):
        make_differentiable(model).inverse_dynamics(*tensors).square().sum().backward()
    for array, other in zip(there, here, strict=True):
        assert_close(array.grad.cpu().numpy(), other.grad.numpy(), SAME_ALGEBRA)


def test_arrays_of_jax_stay_on_the_device_and_have_gradients(model):
    jax = pytest.importorskip("jax", reason="no JAX on this machine")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX finds no CUDA device")
    jax.config.update("jax_enable_x64", True)
    from mindyn.kernels.jax import make_differentiable

    if model.robot.loops:
        pytest.skip("closed loops are not supported")
    inputs = batch(model, "inverse_dynamics", (20,))
    there = [jax.numpy.asarray(array) for array in inputs]
    here = [jax.device_put(array, jax.devices("cpu")[0]) for array in inputs]
    torques = jax.jit(make_differentiable(model).inverse_dynamics)
    assert torques(*there).devices() == there[0].devices()
    assert_close(np.asarray(torques(*there)), model.inverse_dynamics(*inputs), SAME_ALGEBRA)
    gradients = jax.grad(lambda *x: (torques(*x) ** 2).sum(), (0, 1, 2))
    for array, other in zip(gradients(*there), gradients(*here), strict=True):
        assert_close(np.asarray(array), np.asarray(other), SAME_ALGEBRA)
