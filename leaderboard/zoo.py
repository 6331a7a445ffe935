"""Identify the sets whose licence allows derived numbers, and write them as robots that mindyn bundles.

    MINDYN_REAL_DATA=FOLDER python -m leaderboard.zoo [NAME ...]

Each robot is one physically consistent fit to the training rows of its set. It is written as TOML and URDF, with its
base parameters, friction curves, findings and held-out error as JSON; docs/zoo.md is written from these files.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from leaderboard.sets import Manifest, prepare, read_manifests
from mindyn import Estimate, PhysicallyConsistent, build_full_model, compile_model, identify, write_toml, write_urdf
from mindyn import __version__ as mindyn_version
from mindyn.applications.comparison.log_sets import HeldOut, read_sets
from mindyn.identification.prediction.friction_curves import friction_curve
from mindyn.identification.prediction.prediction_errors import torque_error
from mindyn.robots.loading import identified_robots
from mindyn.robots.robot import Robot

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "mindyn" / "robots" / "data" / "zoo"
ZOO = {"kr300_2021": "kuka_kr300", "tx40_figaroh": "staubli_tx40", "ur10_2025": "ur10_unisa"}
"""Names of the robots, and their sets."""
CAUTIONS = {
    "kuka_kr300": "The mass of the plate at its flange is not known: it is part of the last link.",
    "staubli_tx40": "The source does not state how its signal becomes a motor torque: "
    "the scale of all values depends on it.",
    "ur10_unisa": "The torque was computed from motor currents with gains of the source: all values scale with them.",
}
SPEEDS = 21


def identify_set(folder: Path, name: str) -> tuple[Estimate, HeldOut]:
    """Fit the training rows of a prepared set."""
    (split,) = read_sets(folder, [name])
    return identify(split.robot, list(split.training), PhysicallyConsistent()), split.held_out[0]


def held_out_error(robot: Robot, estimate: Estimate, part: HeldOut) -> dict[str, Any]:
    """Return the torque error on the scored rows, the motion conditioned as that of the fit.

    `total` and `joints` are those of the written robot; `low_passed` is the total of the estimate itself, which also
    low-passes the torque that it predicts.
    """
    samples, measured = estimate.samples_of(part.log), part.log.tau
    scored = (part.log.rows >= part.rows[0]) & (part.log.rows < part.rows[1])
    torques = compile_model(robot, with_drives=True).inverse_dynamics(samples.q, samples.qd, samples.qdd)
    ours, smooth = (
        torque_error(part.log.joint_names, measured[scored], predicted[scored])
        for predicted in (torques, estimate.predict(samples))
    )
    by_joint = {"total": ours.total, "joints": ours.relative.tolist()}
    return {**by_joint, "low_passed": smooth.total, "rows": int(scored.sum())}


def describe(name: str, estimate: Estimate, robot: Robot, part: HeldOut, manifest: Manifest) -> dict[str, Any]:
    """Return what was identified, as JSON values."""
    fastest = np.abs(estimate.samples_of(part.log).qd).max(axis=0)
    curves = {}
    for k, joint in enumerate(estimate.robot.primary_names):
        curve = friction_curve(estimate, k, np.linspace(-fastest[k], fastest[k], SPEEDS))
        width = np.where(np.isfinite(curve.half_width), curve.half_width, np.nan)
        columns = {"speed": curve.speed, "torque": curve.torque, "half_width": width}
        curves[joint] = {key: _digits(values) for key, values in columns.items()}
    base = [
        {"name": label, "unit": unit, "value": _digit(value), "low": _digit(value - half), "high": _digit(value + half)}
        for label, unit, value, half in zip(
            estimate.names, estimate.units, estimate.beta, estimate.uncertainty.half_widths, strict=True
        )
    ]
    return {
        "title": manifest["title"],
        "set": ZOO[name],
        "source": f"{manifest['repository']}/tree/{manifest['commit']}",
        "licence": manifest["licence"],
        "date": f"{date.today():%Y-%m-%d}",
        "mindyn": mindyn_version,
        "command": f"python -m leaderboard.zoo {name}",
        "caution": "Measured on one robot; other robots of this type have another payload and friction. "
        f"{CAUTIONS[ZOO[name]]}",
        "settings": estimate.settings.to_dict(),
        "held_out": held_out_error(robot, estimate, part),
        "base_parameters": base,
        "friction": curves,
        "findings": [finding.to_dict() for finding in estimate.findings],
    }


def _digit(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _digits(values: Any) -> list[float | None]:
    return [_digit(value) for value in np.asarray(values).tolist()]


def write_docs() -> None:
    """Write docs/zoo.md from the files of the zoo."""
    head = (
        "| robot | name | held-out error | torque low-passed as in the fit | held-out rows | base parameters "
        "| licence of the log | date |"
    )
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    cautions = []
    servo_lines = ["| robot | name | held-out error | held-out rows | joints | licence of the log | date |"]
    servo_lines.append("|---|---|---|---|---|---|---|")
    for name, entry in identified_robots().items():
        cautions.append(_describe_caution(name, entry))
        if "servos" in entry:
            servo_lines.append(_servo_row(name, entry))
            continue
        errors = [f"{100 * entry['held_out'][key]:.2f} %" for key in ("total", "low_passed")]
        count = len(entry["base_parameters"])
        cells = [
            entry["title"],
            f"`{name}`",
            *errors,
            entry["held_out"]["rows"],
            count,
            entry["licence"],
            entry["date"],
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    only = [m["title"] for m in read_manifests().values() if not m["derived_numbers"]]
    text = (ROOT / "leaderboard" / "zoo.md").read_text(encoding="utf-8")
    page = text.format(
        table="\n".join(lines),
        servos="\n".join(servo_lines),
        cautions="\n".join(cautions),
        recipe_only=f"{', '.join(only[:-1])} and {only[-1]}",
    )
    (ROOT / "docs" / "zoo.md").write_text(page, encoding="utf-8")


def _describe_caution(name: str, entry: dict[str, Any]) -> str:
    conditions = f" Conditions: {entry['conditions']}" if "conditions" in entry else ""
    return f"- `{name}`: {entry['caution']}{conditions} [Log]({entry['source']}), `{entry['command']}`."


def _servo_row(name: str, entry: dict[str, Any]) -> str:
    joints = len({servo["joint"] for servo in entry["servos"]})
    error = f"{100 * entry['held_out']['total']:.1f} %"
    cells = [entry["title"], f"`{name}`", error, entry["held_out"]["rows"], joints, entry["licence"], entry["date"]]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Identify the named robots, or all, and write them."""
    names = sys.argv[1:] or list(ZOO)
    if unknown := set(names) - set(ZOO):
        sys.exit(f"no robot {', '.join(sorted(unknown))}; the robots are: {', '.join(ZOO)}")
    local = os.environ.get("MINDYN_REAL_DATA")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mindyn-zoo-") as temporary:
        folder = prepare(Path(temporary), [ZOO[name] for name in names], Path(local) if local else None)
        for name in names:
            estimate, part = identify_set(folder, ZOO[name])
            robot = build_full_model(estimate, friction_at_zero="fitted")
            write_toml(robot, FOLDER / f"{name}.toml")
            write_urdf(build_full_model(estimate), FOLDER / f"{name}.urdf", meshes=False, force=True)
            entry = describe(name, estimate, robot, part, read_manifests([ZOO[name]])[ZOO[name]])
            (FOLDER / f"{name}.json").write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
            print(
                f"{name}: {100 * entry['held_out']['total']:.2f} % of the torque of {entry['held_out']['rows']} "
                "held-out rows"
            )
    write_docs()


if __name__ == "__main__":
    main()
