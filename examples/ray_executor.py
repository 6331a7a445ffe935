"""Use Ray as a `concurrent.futures.Executor` for `executor=`. Without Ray the example runs in threads.

pip install ray
python examples/ray_executor.py
"""

from __future__ import annotations

from concurrent.futures import Executor, Future, ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np

import mindyn


class RayExecutor(Executor):
    """Every task is one of Ray's; workers need mindyn installed, and to see the logs."""

    def __init__(self, **settings):
        import ray

        ray.init(ignore_reinit_error=True, **settings)
        # Retry on another worker if one dies; do not retry errors that mindyn raises.
        self._run = ray.remote(max_retries=3)(lambda function, args, given: function(*args, **given))

    def submit(self, function, /, *args, **given) -> Future:
        """Submit a task to Ray; return its `concurrent.futures.Future`."""
        return self._run.remote(function, args, given).future()

    def shutdown(self, wait=True, *, cancel_futures=False):  # noqa: ARG002 - as Executor has it
        """Disconnect from the cluster."""
        import ray

        ray.shutdown()


def logs(robot: mindyn.Robot, count: int) -> list[mindyn.Log]:
    """Return logs of a two-link arm, computed by inverse dynamics."""
    model, created = mindyn.compile_model(robot, with_drives=True), []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        t = np.arange(2000) / 200
        w, a = rng.uniform(1, 5, (3, 2)), rng.uniform(0.2, 0.6, (3, 2))
        angle = t[:, None, None] * w
        q, qd, qdd = (a * np.sin(angle)).sum(1), (a * w * np.cos(angle)).sum(1), -(a * w**2 * np.sin(angle)).sum(1)
        tau = model.inverse_dynamics(q, qd, qdd) + rng.normal(scale=0.2, size=q.shape)
        created.append(mindyn.log_from_arrays(robot.joint_names, t, q, tau))
    return created


robot = mindyn.load_robot("planar2")
settings = mindyn.EquationSettings(mindyn.Conditioning(motion_hz=20.0, delay_s=0.0))
recorded = logs(robot, 4)
here = mindyn.identify(robot, recorded, mindyn.LeastSquares(), settings)
with RayExecutor(num_cpus=2) if find_spec("ray") else ThreadPoolExecutor(2) as executor:
    there = mindyn.identify(robot, recorded, mindyn.LeastSquares(), settings, executor=executor)
print(f"{type(executor).__name__}: the same bits: {here.beta.tobytes() == there.beta.tobytes()}")
assert here.beta.tobytes() == there.beta.tobytes()
