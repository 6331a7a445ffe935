"""PyTorch and JAX differentiate the equations: by motion and parameters, batched, mapped, jitted, twice."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from closeness import DERIVATIVE, EXACT, SAME_ALGEBRA, assert_close
from raising import raises

from mindyn import compile_model, load_robot
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.hints import install_command
from mindyn.kernels.differentiable import DifferentiableFunctions

ROBOT = load_robot("planar2")
NAMES = ("inverse_dynamics", "forward_dynamics", "energy", "regressor")


def model_and_inputs(name, batch=(3,)):
    """A model with run-time parameters, and inputs of an equation: motions of a batch, one set of parameters."""
    model = compile_model(ROBOT, parameters="input")
    rng = np.random.default_rng(0)
    motion = rng.uniform(-1, 1, (2 if name == "energy" else 3, *batch, 2))
    return model, [*motion] if name == "regressor" else [*motion, np.array(ROBOT.phi)]


def reference(model, name, inputs):
    return getattr(model, name)(*inputs)


class TestTorch:
    torch = None

    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch")
        from mindyn.kernels.torch import make_differentiable

        self.differentiable = make_differentiable

    def tensors(self, inputs, **options):
        return [self.torch.tensor(array, **options) for array in inputs]

    @pytest.mark.parametrize("name", NAMES)
    def test_gradients_are_those_of_differences(self, name):
        model, inputs = model_and_inputs(name)
        dynamics = self.differentiable(model)
        assert_close(dynamics(name, *self.tensors(inputs)).numpy(), reference(model, name, inputs), SAME_ALGEBRA)
        assert self.torch.autograd.gradcheck(lambda *x: dynamics(name, *x), self.tensors(inputs, requires_grad=True))

    def test_second_derivatives_are_those_of_differences(self):
        model, inputs = model_and_inputs("forward_dynamics", ())
        dynamics = self.differentiable(model)
        given = self.tensors(inputs, requires_grad=True)
        assert self.torch.autograd.gradgradcheck(dynamics.forward_dynamics, given)

    def test_mapping_over_motions_or_parameters_is_a_loop(self):
        model, (q, qd, qdd, phi) = model_and_inputs("inverse_dynamics", (4,))
        dynamics = self.differentiable(model)
        q, qd, qdd, phi = self.tensors((q, qd, qdd, phi))
        several = phi * self.torch.linspace(0.5, 1.5, 5, dtype=phi.dtype)[:, None]
        mapped = self.torch.func.vmap(lambda p: dynamics.inverse_dynamics(q, qd, qdd, p))(several)
        loop = np.stack([model.inverse_dynamics(q.numpy(), qd.numpy(), qdd.numpy(), p.numpy()) for p in several])
        assert_close(mapped.numpy(), loop, SAME_ALGEBRA)
        jacobian = self.torch.func.vmap(self.torch.func.jacrev(dynamics.inverse_dynamics, 2), (0, 0, 0, None))
        assert_close(jacobian(q, qd, qdd, phi).numpy(), model.inertia_matrix(q.numpy(), phi.numpy()), SAME_ALGEBRA)

    def test_closed_loops_take_primary_positions(self):
        dynamics = self.differentiable(compile_model(PRESS))
        given = self.tensors(press_motion(), requires_grad=True)
        assert self.torch.autograd.gradcheck(dynamics.inverse_dynamics, given)
        mapped = self.torch.func.vmap(self.torch.func.jacrev(dynamics.inverse_dynamics, 2))(*given)
        assert_close(mapped.detach().numpy(), compile_model(PRESS).inertia_matrix(press_motion()[0]), SAME_ALGEBRA)

    def test_float32_is_kept_and_integers_raise(self):
        model, inputs = model_and_inputs("energy")
        dynamics = self.differentiable(model)
        assert dynamics.energy(*self.tensors(inputs, dtype=self.torch.float32)).dtype == self.torch.float32
        with raises(InputError, Code.WRONG_TYPE):
            dynamics.energy(*self.tensors([np.ones(2, int)] * 3))
        with raises(InputError, Code.WRONG_SHAPE, "q"):
            dynamics.energy(*self.tensors([np.ones(3)] * 3))


class TestJax:
    @pytest.fixture(autouse=True)
    def _jax(self):
        self.jax = pytest.importorskip("jax")
        self.jax.config.update("jax_enable_x64", True)
        from mindyn.kernels.jax import make_differentiable

        self.differentiable = make_differentiable

    @pytest.mark.parametrize("name", NAMES)
    def test_gradients_are_those_of_differences(self, name):
        from jax.test_util import check_grads

        model, inputs = model_and_inputs(name)
        dynamics = self.differentiable(model)
        function = self.jax.jit(lambda *x: dynamics(name, *x))
        assert_close(function(*inputs), reference(model, name, inputs), SAME_ALGEBRA)
        order = 2 if name == "forward_dynamics" else 1
        check_grads(function, inputs, order=order, modes=["rev"], rtol=DERIVATIVE, atol=DERIVATIVE)

    def test_mapping_over_motions_or_parameters_is_a_loop(self):
        model, (q, qd, qdd, phi) = model_and_inputs("inverse_dynamics", (4,))
        dynamics, jax = self.differentiable(model), self.jax
        several = phi * np.linspace(0.5, 1.5, 5)[:, None]
        mapped = jax.jit(jax.vmap(lambda p: dynamics.inverse_dynamics(q, qd, qdd, p)))(several)
        loop = np.stack([model.inverse_dynamics(q, qd, qdd, p) for p in several])
        assert_close(mapped, loop, SAME_ALGEBRA)
        jacobian = jax.vmap(jax.jacrev(dynamics.inverse_dynamics, 2), (0, 0, 0, None))
        assert_close(jacobian(q, qd, qdd, phi), model.inertia_matrix(q, phi), SAME_ALGEBRA)

    def on_cpu(self):
        """Compute on the CPU where there is a GPU too, which solves no loops and rounds float32 differently."""
        return self.jax.default_device(self.jax.devices("cpu")[0])

    def test_closed_loops_take_primary_positions(self):
        from jax.test_util import check_grads

        function = self.jax.jit(self.jax.vmap(self.differentiable(compile_model(PRESS)).inverse_dynamics))
        with self.on_cpu():
            check_grads(function, press_motion(), order=1, modes=["rev"], rtol=DERIVATIVE, atol=DERIVATIVE)

    def test_empty_batches_and_float32_work_through_xla(self):
        model, inputs = model_and_inputs("inverse_dynamics", (3,))
        dynamics, jax = self.differentiable(model), self.jax
        none = jax.jit(dynamics.inverse_dynamics)(*(array[:0] for array in inputs[:3]), inputs[3])
        assert none.shape == (0, 2)
        given = [array.astype(np.float32) for array in inputs]
        with self.on_cpu():
            single = jax.jit(dynamics.inverse_dynamics)(*given)
        assert single.dtype == np.float32
        assert_close(single, DifferentiableFunctions(model)["inverse_dynamics", None].run(*given)[0], EXACT)

    def test_an_error_in_an_xla_call_reaches_the_caller(self):
        from mindyn.kernels.xla_call import make_handler

        def fail(*_):
            raise InputError("no such motion")

        kept, jax = make_handler(fail), self.jax
        jax.ffi.register_ffi_target("mindyn_test_refuse", jax.ffi.pycapsule(kept), platform="cpu")
        on_cpu = jax.default_device(jax.devices("cpu")[0])
        with on_cpu, pytest.raises(jax.errors.JaxRuntimeError, match="InputError: no such motion"):
            jax.ffi.ffi_call("mindyn_test_refuse", jax.ShapeDtypeStruct((2,), np.float64))(np.zeros(2))


PRESS = load_robot("slider_crank")


def press_motion():
    return [np.array([[0.7], [-0.4]]), *np.random.default_rng(0).uniform(-1, 1, (2, 2, 1))]


def test_loops_are_differentiated_through_their_closure():
    """By the primary joints as differences say; not by the start of the others; open ones are flagged."""
    model = compile_model(PRESS)
    ops, (p, pd, pdd) = DifferentiableFunctions(model), press_motion()
    q, op = ops.loop_solver(1).run(p)[0], ops["inverse_dynamics", None]
    assert ops.loop_solver(3) is None
    assert_close(op.run(q, pd, pdd)[0], model.inverse_dynamics(p, pd, pdd), SAME_ALGEBRA)
    by_q = op.adjoint.run(q, pd, pdd, np.ones((2, 1)))[0]
    there, back = (model.inverse_dynamics(p + h, pd, pdd) for h in (1e-6, -1e-6))
    assert_close(ops.loop_solver(1).adjoint.run(p, by_q)[0], (there - back) / 2e-6, DERIVATIVE)
    assert np.abs(by_q[:, 1:]).max() < 1e-12
    q[1, 1] += 0.5
    assert np.isnan(op.run(q, pd, pdd)[0]).tolist() == [[False], [True]]
    assert np.isnan(op.adjoint.run(q, pd, pdd, np.ones((2, 1)))[0][1]).any()
    single = op.run(*(array.astype(np.float32) for array in (q[:1], pd[:1], pdd[:1])))[0]
    assert single.dtype == np.float32
    assert np.isfinite(single).all()
    assert np.isnan(ops.loop_solver(1).run(np.array([[np.nan]]))[0]).all()
    assert ops.loop_solver(1).run(np.zeros((0, 1)))[0].shape == (0, 3)


@pytest.mark.parametrize("package", ["torch", "jax"])
def test_a_missing_package_error_names_the_extra(package):
    code = f"import sys; sys.modules[{package!r}] = None\nimport mindyn.kernels.{package}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert install_command(package) in done.stderr
