"""Stiffness of the joints of the KUKA KR300, from the encoders of its motors and links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mindyn
from leaderboard.sets import read_manifests
from mindyn import Log
from mindyn.identification import identify_elasticity, predict_deflection

SET = "kuka_kr300"
COLUMNS = {"position": "rec.act_pos_se_deg", "motor_position": "rec.act_pos_mot_deg", "time": "rec.time_cont"}
SIDES = {"position": "joint", "motor_position": "joint", "torque": "motor"}


def read_recordings(folder: Path) -> dict[str, Log]:
    """Return the runs A, B and C with the positions of motors and links, from the files of the set."""
    entry = read_manifests([SET])[SET]["entry"]
    robot = mindyn.load_robot(Path(__file__).parent / "robots" / f"{SET}.toml")
    metadata = {
        "joints": entry["joints"],
        "gears": [row[k] for k, row in enumerate(entry["torque"]["to_joint"])],
        "position_offset": np.degrees(entry["position"]["offset"]).round(9).tolist(),
    }
    return {
        name: mindyn.read_log(
            folder / f"traj_{name}.mat",
            robot,
            columns={**COLUMNS, "torque": "rec.act_torque_abs_nm"},
            units={"time": "s", "position": "deg", "torque": "N m"},
            side=SIDES,
            metadata=metadata,
        )
        for name in "ABC"
    }


def describe_elasticity(folder: Path) -> dict[str, Any]:
    """Return the elasticity by runs A and B as JSON values, with the error of the deflection on run C."""
    runs = read_recordings(folder)
    training = [runs["A"], runs["B"]]
    estimate = mindyn.identify(mindyn.load_robot(Path(__file__).parent / "robots" / f"{SET}.toml"), training)
    elasticity = identify_elasticity(estimate, training)
    error = predict_deflection(elasticity, estimate, runs["C"]).error
    values = {key: value for key, value in elasticity.to_dict().items() if key not in ("sources", "curves")}
    is_known = [np.isfinite(joint.compliance) for joint in elasticity.joints]
    held_out = [float(e) if known else None for e, known in zip(error, is_known, strict=True)]
    return {**values, "held_out": {"quantity": "deflection", "joints": held_out}}
