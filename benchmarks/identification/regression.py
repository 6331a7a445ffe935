"""Compare mindyn's streaming QR with chunked Pinocchio loops: one million samples of a 6-joint arm with friction.

    python -m benchmarks.identification.regression [--samples SAMPLES] [--record]

The loops compute Pinocchio's joint-torque regressor sample by sample into chunks of 10 000, add friction columns, keep
the base columns, and (a) factor the chunk with the R so far, (b) add its normal equations. q, qd, qdd, tau are in
memory.
"""

from __future__ import annotations

import os

for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"  # read when NumPy is loaded, so before the imports below

# ruff: noqa: E402
import tempfile
from pathlib import Path
from time import process_time

import numpy as np
import pinocchio as pin

import mindyn
from benchmarks.sections import Section, arguments, publish, ratio, spaced
from benchmarks.timing import this_machine
from mindyn.kernels.model import compile_model
from mindyn.logs.samples import Samples
from mindyn.output.export.urdf_writer import write_urdf
from mindyn.regression.information import solve
from mindyn.regression.regressor import Regressor, with_estimated_drives
from mindyn.regression.row_blocks import gather

CHUNK = 10_000


def data(robot, count):
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.uniform(-2, 2, (3, count, robot.joint_count))
    tau = compile_model(robot, with_drives=True).inverse_dynamics(q, qd, qdd)
    tau += 0.1 * rng.standard_normal(tau.shape)
    return Samples(robot.joint_names, q, qd, qdd, tau, 1000.0, np.zeros(count, dtype=np.int64))


def pinocchio_model(robot):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arm.urdf"
        write_urdf(robot, path, force=True)
        return pin.buildModelFromUrdf(str(path))


def full_columns(model, scratch, samples, rows, out):
    """Return columns (rows n, 14 n): regressor, rotor inertia, viscous and Coulomb friction, and offset of every
    joint."""
    n = model.nv
    for i, k in enumerate(rows):
        Y = pin.computeJointTorqueRegressor(model, scratch, samples.q[k], samples.qd[k], samples.qdd[k])
        out[n * i : n * (i + 1), : 10 * n] = Y
    block = out[: n * len(rows)].reshape(len(rows), n, -1)
    for j in range(n):
        block[:, j, 10 * n + j] = samples.qdd[rows, j]
        block[:, j, 11 * n + j] = samples.qd[rows, j]
        block[:, j, 12 * n + j] = np.sign(samples.qd[rows, j])
        block[:, j, 13 * n + j] = 1.0
    return out[: n * len(rows)]


def base_columns(model, samples):
    """Return independent columns, by pivoted QR of some samples."""
    from scipy.linalg import qr

    Y = full_columns(model, model.createData(), samples, range(400), np.zeros((400 * model.nv, 14 * model.nv)))
    _, R, order = qr(Y / np.maximum(np.linalg.norm(Y, axis=0), 1e-300), mode="economic", pivoting=True)
    rank = int((np.abs(np.diag(R)) > 1e-8 * abs(R[0, 0])).sum())
    return np.sort(order[:rank])


def pinocchio_loop(model, samples, kept, method):
    scratch, n = model.createData(), model.nv
    out = np.zeros((CHUNK * n, 14 * n))
    R, A = np.zeros((0, len(kept) + 1)), np.zeros((len(kept) + 1, len(kept) + 1))
    start = process_time()
    for first in range(0, len(samples), CHUNK):
        rows = range(first, min(first + CHUNK, len(samples)))
        Y = full_columns(model, scratch, samples, rows, out)[:, kept]
        block = np.column_stack([Y, samples.tau[first : first + CHUNK].ravel()])
        if method == "qr":
            R = np.linalg.qr(np.vstack([R, block]), mode="r")
        else:
            A += block.T @ block
    if method == "qr":
        np.linalg.solve(R[:-1, :-1], R[:-1, -1])
        left = abs(R[-1, -1])
    else:
        beta = np.linalg.solve(A[:-1, :-1], A[:-1, -1])
        left = float(np.sqrt(max(0.0, A[-1, -1] - A[:-1, -1] @ beta)))
    return process_time() - start, left


def recursive_update_us(robot, samples):
    """Return the least time per update from Python, in runs of 1000."""
    online, times = mindyn.RecursiveLeastSquares(robot), []
    for first in range(0, 10_000, 1000):
        start = process_time()
        for k in range(first, first + 1000):
            online.update(samples.q[k], samples.qd[k], samples.qdd[k], samples.tau[k])
        times.append((process_time() - start) / 1000)
    return 1e6 * min(times)


def memory_mb(field):
    """Return VmRSS (now) or VmHWM (peak since the reset) of Linux, MB."""
    (line,) = [
        splitline for splitline in Path("/proc/self/status").read_text().splitlines() if splitline.startswith(field)
    ]
    return int(line.split()[1]) / 1024


def main():
    parser = arguments(__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    options = parser.parse_args()
    robot = with_estimated_drives(mindyn.load_robot("puma560"))
    samples = data(robot, options.samples)
    regressor = Regressor(robot)
    gather(regressor, data(robot, 2000))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = memory_mb("VmRSS")
    start = process_time()
    information = gather(regressor, samples)
    R, z = information.stacked()
    solution = solve(R, z)
    ours = process_time() - start
    above = memory_mb("VmHWM") - before
    left = float(np.sqrt(information.residuals(solution.beta).sum()))
    model = pinocchio_model(robot)
    kept = base_columns(model, samples)
    table = [("", "time", "mindyn is faster by")]
    table.append(("mindyn, QR", f"{ours:.2f} s", ""))
    for label, method in (("Pinocchio loop, QR", "qr"), ("Pinocchio loop, normal equations", "normal")):
        seconds, theirs = pinocchio_loop(model, samples, kept, method)
        assert abs(theirs / left - 1) < 1e-6, f"{label} leaves another residual: {theirs} instead of {left}"
        table.append((label, f"{seconds:.1f} s", ratio(seconds / ours)))
    publish(
        Section(
            "regression",
            "Regression",
            "python -m benchmarks.identification.regression",
            this_machine("pin"),
            [
                f"{spaced(options.samples)} samples of a 6-joint arm with friction columns from memory to parameters, "
                "one thread on both sides. The loops call Pinocchio's regressor sample by sample and solve in chunks "
                f"of {spaced(CHUNK)} samples."
            ],
            table,
            [
                f"The fit takes {above:.0f} MB above the data. An update of `RecursiveLeastSquares` from Python takes "
                f"{recursive_update_us(robot, samples):.1f} us."
            ],
        ),
        record=options.record,
    )


if __name__ == "__main__":
    main()
