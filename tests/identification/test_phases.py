"""Contact states in the sidecar of a log: a biped that MuJoCo simulates while held, in flight and on one foot."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import polars
import pytest
from cli.program import mindyn_program
from floating_robots import biped_urdf
from raising import raises

import mindyn
from mindyn.foundation.errors import Code, InputError, UnknownNameError
from mindyn.logs.log_errors import LogError

URDF = biped_urdf().replace('iyy="0.005"', 'iyy="0.004"')  # MuJoCo rejects thinner thighs
RATE = 250.0
JOINTS = ("left_hip", "left_knee", "right_hip", "right_knee")
POSE = ["x", "y", "z", "qx", "qy", "qz", "qw"]
WRENCH = ["mx", "my", "mz", "fx", "fy", "fz"]
SIDECAR = f"""side = "joint"
base_pose = {json.dumps(POSE)}
columns = {{ time = "t", position = "q.{{joint}}", torque = "tau.{{joint}}" }}
units = {{ time = "s", position = "rad", torque = "N m" }}
"""


@cache
def simulate(case: str, seconds: float, seed: int) -> dict[str, np.ndarray]:
    """Return the columns of a log; the trunk is "held", in "flight", or the left foot is pinned ("foot")."""
    import mujoco

    spec = mujoco.MjSpec.from_string(URDF)
    spec.compiler.fusestatic = False
    spec.option.timestep = 2e-4
    attitude = np.array([0.8, 0.36, 0.4, 0.27]) / np.linalg.norm([0.8, 0.36, 0.4, 0.27])
    if case == "held":
        spec.body("trunk").quat = attitude
    else:
        spec.body("trunk").add_freejoint()
    if case == "foot":
        spec.add_equality(
            type=mujoco.mjtEq.mjEQ_CONNECT, name1="left_foot", name2="world", objtype=mujoco.mjtObj.mjOBJ_BODY
        )
    model = spec.compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_LIMIT)
    state, rng = mujoco.MjData(model), np.random.default_rng(seed)
    pose = state.qpos[:7] if case != "held" else np.zeros(7)
    pose[3:] = attitude
    mujoco.mj_kinematics(model, state)
    if case == "foot":
        model.eq_data[0, :6] = (0, 0, 0, *state.xpos[model.body("left_foot").id])
        model.eq_solref[0], model.eq_solimp[0] = (4e-4, 1), (0.999, 0.999, 0.001, 0.5, 2)
    places = [model.joint(name).qposadr[0] for name in JOINTS]
    dofs = [model.joint(name).dofadr[0] for name in JOINTS]
    w, phase = rng.uniform(3, 18, (4, 4)), rng.uniform(0, 6, (4, 4))
    rows, steps = [], round(1 / (RATE * model.opt.timestep))
    for step in range(int(seconds * RATE) * steps):
        target = 0.3 * np.sin(w * step * model.opt.timestep + phase).sum(axis=0)
        tau = state.qfrc_applied[dofs] = 12 * (target - state.qpos[places]) - 0.5 * state.qvel[dofs]
        before = np.concatenate([[step * model.opt.timestep], pose[:3], np.roll(pose[3:], -1), state.qpos[places], tau])
        mujoco.mj_step(model, state)
        if step % steps == 0:
            R = state.xmat[model.body("left_foot").id].reshape(3, 3)
            force = R.T @ state.efc_force[:3] if case == "foot" else np.zeros(3)
            rows.append(np.concatenate([before, np.zeros(3), force]))
    names = ["t", *POSE, *(f"q.{j}" for j in JOINTS), *(f"tau.{j}" for j in JOINTS), *WRENCH]
    return dict(zip(names, np.array(rows).T, strict=True))


def write(folder, name, columns, phases, head=SIDECAR):
    polars.DataFrame(columns).write_csv(folder / f"{name}.csv")
    (folder / f"{name}.csv.toml").write_text(f"{head}phases = {phases}\n")
    return folder / f"{name}.csv"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "biped.urdf").write_text(URDF)
    return tmp_path


@pytest.fixture
def biped(folder):
    return mindyn.load_robot(folder / "biped.urdf", root_joint="floating", snap=False)


CASES = {
    "held": '[{ trunk = "held" }]',
    "flight": "[{}]",
    "foot": '[{ contacts = ["left_foot"] }]',
    "measured": f"[{{ wrenches = {{ left_foot = {json.dumps(WRENCH)} }} }}]",
}
SETTINGS = mindyn.EquationSettings(None, "auto", "auto", "auto", drive_parameters="stated")


def largest_error(estimate, biped):
    """Return the largest error of an identifiable parameter of links, relative to the largest of its kind."""
    truth = mindyn.base_parameters(biped)
    known = dict(zip(estimate.names, estimate.beta, strict=True))
    sizes = {"m": 6.2, "mc": 0.14, "I": 0.1}
    errors = [
        abs(known[name] - value) / next(size for kind, size in sizes.items() if name.strip("R0123456789xyz") == kind)
        for name, value in zip(truth.names, truth.values, strict=True)
        if name not in estimate.values.unidentifiable
    ]
    return max(errors)


def test_each_phase_of_the_sidecar_gives_its_rows(folder, biped):
    """A held trunk hides its ten parameters, an unknown force at a foot hides a point mass, the rest is found."""
    logs = {
        case: mindyn.read_log(
            write(folder, case, simulate("foot" if case == "measured" else case, 8.0, 0), phases), biped
        )
        for case, phases in CASES.items()
    }
    estimates = {case: mindyn.identify(biped, log, settings=SETTINGS) for case, log in logs.items()}
    hidden = {case: len(estimate.values.unidentifiable) for case, estimate in estimates.items()}
    assert hidden == {"held": 18, "flight": 0, "foot": 18, "measured": 0}
    assert all(largest_error(estimate, biped) < 2e-3 for estimate in estimates.values())
    together = mindyn.identify(biped, [logs[case] for case in ("held", "flight", "foot")], settings=SETTINGS)
    assert together.values.unidentifiable == ()
    assert largest_error(together, biped) < 1e-3
    assert together.data.cross_validated.total < 0.01
    consistent = mindyn.PhysicallyConsistent(covariance="correlated")
    assert largest_error(mindyn.identify(biped, logs["flight"], consistent, SETTINGS), biped) < 2e-3


@pytest.mark.parametrize("option", [{"scale": "free"}, {"executor": ThreadPoolExecutor(1)}], ids=["scale", "executor"])
def test_phases_reject_what_they_would_ignore(folder, biped, option):
    path = write(folder, "still", simulate("held", 8.0, 0), CASES["held"])
    with raises(InputError, Code.UNSUPPORTED, next(iter(option))):
        mindyn.identify(biped, mindyn.read_log(path, biped), settings=SETTINGS, **option)


def test_the_command_reads_phases_of_one_file(folder, biped):
    """Phases by time, in one file, give the values of three files; gaps between them split no equation."""
    parts, start, phases = [], 0.0, []
    for case in ("held", "flight", "foot"):
        columns = simulate(case, 8.0, 0)
        parts.append({**columns, "t": columns["t"] + start})
        state = CASES[case][3:-3].strip()
        phases.append(f"{{ times = [{start}, {start + 8.0}]{', ' if state else ''}{state} }}")
        start += 9.0
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    path = write(folder, "all", columns, f"[{', '.join(phases)}]")
    shown = mindyn_program("identify", folder / "biped.urdf", path, "--base", "floating", "--out", folder / "run")
    assert shown.code in (0, 3), shown.err
    assert mindyn_program("identify", folder / "biped.urdf", path, "--base", "floating", "--hold-out", "0.3").code == 1
    estimate = mindyn.load_estimate(folder / "run" / "estimate.json")
    assert estimate.values.unidentifiable == ()
    assert largest_error(estimate, biped) < 0.03
    assert (
        "held-out blocks of all phases"
        in mindyn_program("identify", folder / "biped.urdf", path, "--base", "floating", "--json").out
    )


def test_wrong_phases_raise(folder, biped):
    columns = simulate("flight", 8.0, 0)
    with raises(LogError, Code.UNKNOWN_NAME, "nx"):
        mindyn.read_log(
            write(folder, "a", columns, '[{ wrenches = { left_foot = ["nx", "my", "mz", "fx", "fy", "fz"] } }]'), biped
        )
    with raises(LogError, Code.INVALID_VALUE, "phases"):
        mindyn.read_log(write(folder, "b", columns, '[{ trunk = "free" }]'), biped)
    free = mindyn.read_log(write(folder, "c", columns, "[{}]", SIDECAR.replace("base_pose", "#")), biped)
    with raises(InputError, Code.MISSING_VALUE, "base_pose"):
        mindyn.identify(biped, free)
    absent = mindyn.read_log(write(folder, "d", columns, '[{ contacts = ["hand"] }]'), biped)
    with raises(UnknownNameError, Code.UNKNOWN_NAME, "hand"):
        mindyn.identify(biped, absent)
    with raises(InputError, Code.UNSUPPORTED, "biped"):
        mindyn.read_log(folder / "d.csv", mindyn.load_robot(folder / "biped.urdf"))
    with raises(InputError, Code.UNSUPPORTED, "phases"):
        mindyn.identify(biped, mindyn.scan_log(folder / "d.csv", biped))
