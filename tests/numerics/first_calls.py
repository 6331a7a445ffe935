"""First calls of public names, each in eight threads of a fresh process: python first_calls.py NAME FOLDER.

FOLDER contains run.csv with its sidecar, estimate.json and arm.urdf. The script prints the errors of the threads, one
per line.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

THREADS = 8


def load(m: Any, folder: Path) -> Any:
    return m.load_estimate(folder / "estimate.json")


def rows(m: Any, folder: Path) -> Any:
    arm = m.load_robot("planar2")
    log = m.read_log(folder / "run.csv", arm)
    return m.build_rows(arm, log)


def fit_servos(m: Any) -> tuple[Any, Any]:
    """Return an estimate of servos and the log of its targets."""
    import numpy as np

    from mindyn.logs import log_from_targets

    arm, t = m.load_robot("planar2"), np.arange(500) / 100
    target = np.column_stack([0.5 * np.sin(2 * t), 0.4 * np.cos(3 * t)])
    q = np.column_stack([0.49 * np.sin(2 * t - 0.1), 0.39 * np.cos(3 * t - 0.15)])
    log = log_from_targets(arm.joint_names, t, q, target, "unknown")
    return m.identify_servos(arm, log), log


Call = Callable[[Any, Path, Path], Any]
CALLS: dict[str, Call] = {
    "load_robot": lambda m, f, _: (m.load_robot("planar2"), m.load_robot(f / "arm.urdf")),
    "bundled_robots": lambda m, *_: m.bundled_robots(),
    "identified_robots": lambda m, *_: m.identified_robots(),
    "identified_motors": lambda m, *_: m.identified_motors(),
    "base_parameters": lambda m, *_: m.base_parameters(m.load_robot("planar2")),
    "compile_model": lambda m, *_: m.compile_model(m.load_robot("planar2")).gravity([0.1, 0.2]),
    "build_equation": lambda m, *_: m.build_equation(m.load_robot("planar2"), "inverse_dynamics"),
    "read_log": lambda m, f, _: m.read_log(f / "run.csv", m.load_robot("planar2")),
    "scan_log": lambda m, f, _: m.scan_log(f / "run.csv", m.load_robot("planar2")),
    "log_from_arrays": lambda m, *_: m.log_from_arrays(
        ["a"], [0.0, 0.1, 0.2], [[0.0], [0.1], [0.3]], [[0.0], [1.0], [1.0]]
    ),
    "condition": lambda m, f, _: m.condition(
        m.load_robot("planar2"), [m.read_log(f / "run.csv", m.load_robot("planar2"))], m.Conditioning(5.0)
    ),
    "identify": lambda m, f, _: m.identify(
        m.load_robot("planar2"),
        m.read_log(f / "run.csv", m.load_robot("planar2")),
        m.LeastSquares(),
        m.EquationSettings(),
    ),
    "identify_servos": lambda m, *_: fit_servos(m),
    "replay_servos": lambda m, *_: m.replay_servos(*fit_servos(m)),
    "choose": lambda m, f, _: m.choose(m.load_robot("planar2"), [m.read_log(f / "run.csv", m.load_robot("planar2"))]),
    "build_rows": lambda m, f, _: m.LeastSquares().fit(rows(m, f)),
    "load_estimate": lambda m, f, _: load(m, f).predict([[0.1, 0.2]], [[0, 0]], [[0, 0]]),
    "validate": lambda m, f, _: m.validate(load(m, f), m.read_log(f / "run.csv", m.load_robot("planar2"))),
    "fit_essential": lambda m, f, _: m.fit_essential(m.LeastSquares(), rows(m, f)),
    "check_feasible": lambda m, f, _: m.check_feasible(load(m, f)),
    "make_feasible": lambda m, f, _: m.make_feasible(load(m, f)),
    "build_full_model": lambda m, f, _: m.build_full_model(load(m, f)),
    "identify_payload": lambda m, f, _: m.identify_payload(
        load(m, f), m.read_log(f / "run.csv", m.load_robot("planar2"))
    ),
    "design_motion": lambda m, f, _: m.design_motion(
        m.load_robot(f / "arm.urdf"), search=m.SearchSettings(starts=1, deadline_s=0.2)
    ),
    "plan_tests": lambda m, f, _: m.plan_tests(m.load_robot(f / "arm.urdf")),
    "simulate": lambda m, *_: m.simulate(m.load_robot("planar2"), lambda *_: [0.0, 0.0], seconds=0.02, q0=[0.1, 0.2]),
    "roll_out": lambda m, *_: m.roll_out(
        m.load_robot("planar2"), [[0.1, 0.2]], [[0.0, 0.0]], [0.0, 0.0], dt=0.001, steps=3
    ),
    "write_toml": lambda m, _, out: m.write_toml(m.load_robot("planar2"), out / "arm.toml"),
    "write_urdf": lambda m, _, out: m.write_urdf(m.load_robot("planar2"), out / "arm.urdf", force=True),
    "write_mjcf": lambda m, _, out: m.write_mjcf(m.load_robot("planar2"), out / "arm.xml", force=True),
    "write_ros2_package": lambda m, _, out: m.write_ros2_package(m.load_robot("planar2"), out / "package"),
    "to_pinocchio": lambda m, *_: m.to_pinocchio(m.load_robot("planar2")),
    "write_view": lambda m, _, out: m.write_view(m.load_robot("planar2"), out / "view.html"),
    "sample_models": lambda m, f, _: m.sample_models(load(m, f), 2, 0),
    "write_report": lambda m, f, out: m.write_report(load(m, f), out / "report.html"),
}
"""A first call of each public function."""


def call_in_threads(name: str, folder: Path) -> list[str]:
    """Start the threads at once; return the errors that they raise."""
    barrier, errors = Barrier(THREADS), list[str]()

    def work(number: int) -> None:
        out = folder / f"{name}{number}"
        out.mkdir(exist_ok=True)
        barrier.wait()
        try:
            import mindyn

            if name == "all":
                names = mindyn.__all__
                for k in range(len(names)):
                    getattr(mindyn, names[(k + number * len(names) // THREADS) % len(names)])
                return
            CALLS[name](mindyn, folder, out)
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            errors.append(f"{type(error).__name__} at {where.filename}:{where.lineno}: {error}")

    threads = [Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


if __name__ == "__main__":
    for line in call_in_threads(sys.argv[1], Path(sys.argv[2])):
        print(line)
