"""Small fleets of two-link arms, made by inverse dynamics, as bytes of Parquet files."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import polars as pl

import mindyn

SIDECAR = """
side = "joint"
columns = { time = "t", position = "q{i}", torque = "tau{i}" }
units = { time = "s", position = "rad", torque = "N m" }
"""
RATE_HZ = 100.0
SETTINGS = mindyn.EquationSettings(
    mindyn.Conditioning(rate_hz=RATE_HZ, stamps="uniform", motion_hz=12.0, delay_s=0.0, edge_s=0.1)
)
ARM = mindyn.load_robot("planar2")


def log_bytes(
    seed: object,
    rows: int = 400,
    *,
    friction: float = 1.0,
    offset: float = 0.0,
    zero: float = 0.0,
    mass: float = 0.0,
    **more: str,
) -> bytes:
    """A log of an arm whose second joint has so many times the friction, an offset, a zero or a payload."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows) / RATE_HZ
    w, a = rng.uniform(1, 5, (3, 2)), rng.uniform(0.2, 0.6, (3, 2))
    angle = t[:, None, None] * w + rng.uniform(0, 6, (3, 2))
    q, qd, qdd = (a * np.sin(angle)).sum(1), (a * w * np.cos(angle)).sum(1), -(a * w**2 * np.sin(angle)).sum(1)
    arm = ARM.with_payload(mass=mass, com=(0.5, 0.0, 0.0), inertia=(0.01 * np.eye(3)).tolist()) if mass else ARM
    tau = mindyn.compile_model(arm).inverse_dynamics(q, qd, qdd)
    tau = tau + np.array([10.0, 10.0 * friction]) * qd + np.array([2.0, 2.0 * friction]) * np.tanh(qd / 0.05)
    tau += [0.3 * rng.normal(), 0.3 * rng.normal() + offset]
    tau += rng.normal(scale=0.5, size=q.shape)
    columns: dict[str, object] = {"t": t, "q1": q[:, 0], "q2": q[:, 1] - zero, "tau1": tau[:, 0], "tau2": tau[:, 1]}
    file = BytesIO()
    pl.DataFrame(columns | {name: [value] * rows for name, value in more.items()}).write_parquet(file)
    return file.getvalue()
