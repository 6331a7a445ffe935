"""Identify the sets whose licence allows derived numbers, and write them as robots that mindyn bundles.

    MINDYN_REAL_DATA=FOLDER python -m leaderboard.zoo [NAME ...] [--out FOLDER]

Each robot is one physically consistent fit to the training rows of its set. It is written as TOML and URDF, with its
base parameters, friction curves, findings and held-out error as JSON; docs/zoo.md is written from these files. With
`--out`, the files go into that folder instead, also those of a set whose licence does not allow us to publish numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from leaderboard.elastic_joints import describe_elasticity
from leaderboard.sets import Manifest, prepare, read_manifests
from mindyn import Estimate, PhysicallyConsistent, build_full_model, compile_model, identify, write_toml, write_urdf
from mindyn import __version__ as mindyn_version
from mindyn.applications.comparison.log_sets import HeldOut, read_sets
from mindyn.identification import Elasticity
from mindyn.identification.prediction.friction_curves import friction_curve
from mindyn.identification.prediction.prediction_errors import torque_error
from mindyn.robots.loading import identified_robots, zoo_recipes
from mindyn.robots.motors import identified_motors
from mindyn.robots.robot import Robot

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "mindyn" / "robots" / "data" / "zoo"
ZOO = {"kr300_2021": "kuka_kr300", "tx40_figaroh": "staubli_tx40", "ur10_2025": "ur10_unisa"}
"""Names of the robots, and their sets."""
RECIPES = {"panda": "panda_gaz2019", "ur10e": "ur10e_innopolis", "lwr4": "kuka_lwr4"}
"""Names of recipes: sets whose licences do not clearly allow us to publish numbers, for a reader to run."""
RECIPE_FILE = FOLDER.parent / "zoo_recipes.json"
CAUTIONS = {
    "kuka_kr300": "The mass of the plate at its flange is not known: it is part of the last link.",
    "staubli_tx40": "The source does not state how its signal becomes a motor torque: "
    "the scale of all values depends on it.",
    "ur10_unisa": "The torque was computed from motor currents with gains of the source: all values scale with them.",
}
CONDITIONS = {
    "kuka_kr300": "21 October 2020, three motions of 10 s, a plate of unknown mass at the flange; the source does not "
    "state temperature and firmware.",
    "staubli_tx40": "One motion of 7.4 s without a stated load; the source does not state temperature and firmware.",
    "ur10_unisa": "One motion of 27.5 s, CB-series; the source does not state load, temperature and firmware.",
}
SPEEDS = 21


def identify_set(folder: Path, name: str) -> tuple[Estimate, HeldOut]:
    """Fit the training rows of a prepared set."""
    split = read_sets(folder, [name])[0]
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


def describe(estimate: Estimate, robot: Robot, part: HeldOut, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was identified, as JSON values; `facts` are title, set, source, licence, command and conditions."""
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
        **facts,
        "date": f"{date.today():%Y-%m-%d}",
        "mindyn": mindyn_version,
        "settings": estimate.settings.to_dict(),
        "held_out": held_out_error(robot, estimate, part),
        "base_parameters": base,
        "friction": curves,
        "findings": [finding.to_dict() for finding in estimate.findings],
    }


def facts_of_set(name: str, set_name: str, manifest: Manifest) -> dict[str, Any]:
    """Return title, source, licence, command, conditions and caution of an entry."""
    caution = "Measured on one robot; other robots of this type have another payload and friction."
    return {
        "title": manifest["title"],
        "set": set_name,
        "source": f"{manifest['repository']}/tree/{manifest['commit']}",
        "licence": manifest["licence"],
        "command": f"python -m leaderboard.zoo {name}",
        "conditions": CONDITIONS.get(set_name, manifest["robot"]),
        "caution": f"{caution} {CAUTIONS.get(set_name, '')}".strip(),
    }


def _digit(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _digits(values: Any) -> list[float | None]:
    return [_digit(value) for value in np.asarray(values).tolist()]


def write_docs() -> None:
    """Write docs/zoo.md from the files of the zoo."""
    torque_lines = [
        "| robot | name | held-out error | torque low-passed as in the fit | held-out rows | base parameters "
        "| licence of the log | date |",
        "|---|---|---|---|---|---|---|---|",
    ]
    servo_lines = [
        "| robot | name | held-out error | held-out rows | joints | licence of the log | date |",
        "|---|---|---|---|---|---|---|",
    ]
    stiffness_lines = ["| joint of | joint | stiffness, N m/rad | 95 % interval | error of the deflection |"]
    stiffness_lines.append("|---|---|---|---|---|")
    cautions = []
    for name, entry in identified_robots().items():
        cautions.append(_describe_caution(name, entry))
        if "servos" in entry:
            servo_lines.append(_servo_row(name, entry))
        else:
            torque_lines.append(_torque_row(name, entry))
        stiffness_lines += _stiffness_rows(name, entry)
    motor_lines = [
        "| motor | name | gain, N m/rad | Coulomb friction, N m | viscous friction, N m s/rad | rotor inertia, kg m^2 |"
    ]
    motor_lines.append("|---|---|---|---|---|---|")
    for name, entry in identified_motors().items():
        motor_lines.append(_motor_row(name, entry))
        cautions.append(_describe_caution(name, entry))
    recipe_lines = ["| robot | licence of the log | command |", "|---|---|---|"]
    recipe_lines += [f"| {r['title']} | {r['licence']} | `{r['command']}` |" for r in zoo_recipes().values()]
    text = (ROOT / "leaderboard" / "zoo.md").read_text(encoding="utf-8")
    page = text.format(
        table="\n".join(torque_lines),
        servos="\n".join(servo_lines),
        stiffness="\n".join(stiffness_lines),
        motors="\n".join(motor_lines),
        recipes="\n".join(recipe_lines),
        cautions="\n".join(cautions),
    )
    (ROOT / "docs" / "zoo.md").write_text(page, encoding="utf-8")


def _torque_row(name: str, entry: Mapping[str, Any]) -> str:
    errors = [f"{100 * entry['held_out'][key]:.2f} %" for key in ("total", "low_passed")]
    count, rows = len(entry["base_parameters"]), entry["held_out"]["rows"]
    cells = [entry["title"], f"`{name}`", *errors, rows, count, entry["licence"], entry["date"]]
    return "| " + " | ".join(map(str, cells)) + " |"


def _stiffness_rows(name: str, entry: Mapping[str, Any]) -> list[str]:
    """Return a line for each joint whose stiffness was looked for with two encoders."""
    if "elasticity" not in entry:
        return []
    lines = []
    elasticity = Elasticity.from_dict(entry["elasticity"])
    for joint, error in zip(elasticity.joints, entry["elasticity"]["held_out"]["joints"], strict=True):
        if joint.state == "unusable":
            continue
        low, high = joint.stiffness_interval
        value, ends = (
            (f"{joint.stiffness:.3g}", f"{low:.3g} to {high:.3g}") if joint.is_determined else (joint.state, "")
        )
        lines.append(f"| `{name}` | {joint.joint} | {value} | {ends} | {100 * error:.1f} % |")
    return lines


def _motor_row(name: str, entry: Mapping[str, Any]) -> str:
    parameters = {parameter["name"]: parameter for parameter in entry["parameters"]}
    cells = [entry["title"], f"`{name}`"]
    for key in ("gain", "coulomb", "viscous", "rotor_inertia"):
        p = parameters.get(key)
        ends = "" if p is None or p["low"] is None else f" ({p['low']:.3g} to {p['high']:.3g})"
        cells.append("" if p is None else f"{p['value']:.3g}{ends}")
    return "| " + " | ".join(cells) + " |"


def _describe_caution(name: str, entry: dict[str, Any]) -> str:
    conditions = f" Conditions: {entry['conditions']}" if "conditions" in entry else ""
    return f"- `{name}`: {entry['caution']}{conditions} [Log]({entry['source']}), `{entry['command']}`."


def _servo_row(name: str, entry: dict[str, Any]) -> str:
    joints = len({servo["joint"] for servo in entry["servos"]})
    error = f"{100 * entry['held_out']['total']:.1f} %"
    cells = [entry["title"], f"`{name}`", error, entry["held_out"]["rows"], joints, entry["licence"], entry["date"]]
    return "| " + " | ".join(map(str, cells)) + " |"


def write_entry(folder: Path, name: str, estimate: Estimate, part: HeldOut, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write the robot of an estimate as TOML, URDF and JSON, and return the JSON values."""
    robot = build_full_model(estimate, friction_at_zero="fitted")
    folder.mkdir(parents=True, exist_ok=True)
    write_toml(robot, folder / f"{name}.toml")
    write_urdf(build_full_model(estimate), folder / f"{name}.urdf", meshes=False, force=True)
    entry = describe(estimate, robot, part, facts)
    (folder / f"{name}.json").write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
    error = f"{100 * entry['held_out']['total']:.2f} % of the torque of {entry['held_out']['rows']} held-out rows"
    print(f"{name}: {error}")
    return entry


def main() -> None:
    """Identify the named robots, or all, and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ZOO)}; with --out also of {', '.join(RECIPES)}")
    parser.add_argument("--out", type=Path, help="folder for the files, instead of the package")
    options = parser.parse_args()
    known = {**ZOO, **(RECIPES if options.out else {})}
    names = options.names or list(ZOO)
    if unknown := set(names) - set(known):
        hint = "; pass --out FOLDER: the licence of its log does not allow us to publish numbers"
        more = hint if unknown <= set(RECIPES) else f"; the robots are: {', '.join(known)}"
        sys.exit(f"no robot {', '.join(sorted(unknown))}{more}")
    local = os.environ.get("MINDYN_REAL_DATA")
    with tempfile.TemporaryDirectory(prefix="mindyn-zoo-") as temporary:
        folder = prepare(Path(temporary), [known[name] for name in names], Path(local) if local else None)
        for name in names:
            set_name = known[name]
            estimate, part = identify_set(folder, set_name)
            facts = facts_of_set(name, set_name, read_manifests([set_name])[set_name])
            if set_name == "kuka_kr300":
                facts["elasticity"] = describe_elasticity(folder / set_name)
            write_entry(options.out or FOLDER, name, estimate, part, facts)
    if options.out is None:
        write_recipes()
        write_docs()
    else:
        print(f"wrote {options.out}; next: mindyn robots {options.out / names[0]}.toml")


def write_recipes() -> None:
    """Write the list of recipes that `mindyn robots --identified` shows."""
    manifests = read_manifests(list(RECIPES.values()))
    recipes = {
        name: {
            "title": manifests[set_name]["title"],
            "source": facts_of_set(name, set_name, manifests[set_name])["source"],
            "licence": manifests[set_name]["licence"],
            "command": f"python -m leaderboard.zoo {name} --out FOLDER",
        }
        for name, set_name in RECIPES.items()
    }
    RECIPE_FILE.write_text(json.dumps(recipes, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
