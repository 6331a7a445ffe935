"""The four real logs: rows, rates and conversions as splits.json and the NOTE.md files state them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from closeness import SAME_ALGEBRA, assert_close
from messages import messages
from real_sets import FOLDER, needs_real_data, real_log, real_robot
from scipy.io import loadmat

from mindyn.logs.conditioning import Conditioning
from mindyn.logs.filters import settling_rows
from mindyn.logs.pipeline import condition
from mindyn.logs.read_log import read_log

pytestmark = needs_real_data
FILES = {
    "staubli_tx40": ("pos_read_data.csv", 45000, 5000.0),
    "ur10_unisa": ("ur10_exciting_trajectory.csv", 3441, 125.0),
    "kuka_lwr4": ("measurements_1.npz", 5027, 200.0),
    "kuka_kr300": ("traj_A.mat", 2501, 250.0),
}
RMS_OF_SCORED_ROWS = {  # N m, baselines.md section 3
    ("staubli_tx40", "main"): [19.93, 28.32, 8.79, 4.40, 2.51, 2.83],
    ("ur10_unisa", "main"): [21.89, 71.11, 36.30, 6.43, 3.88, 5.85],
    ("kuka_lwr4", "repeat"): [1.25, 26.42, 3.13, 10.40, 1.05, 0.64, 0.26],
    ("kuka_lwr4", "transfer"): [1.51, 19.88, 1.55, 9.66, 0.99, 0.62, 0.28],
    ("kuka_kr300", "main"): [877.7, 2693.6, 2991.7, 170.3, 490.8, 186.9],
}


def entry(name):
    return json.loads((FOLDER / "splits.json").read_text())["sets"][name]


def raw_positions(name, file):
    """The logged positions, read by another path."""
    if file.endswith(".mat"):
        return loadmat(FOLDER / name / file, squeeze_me=True, struct_as_record=False)["rec"].act_pos_mot_deg.T
    if file.endswith(".npz"):
        return np.load(FOLDER / name / file)["positions"]
    table = np.genfromtxt(FOLDER / name / file, delimiter=",", names=True)
    return np.column_stack([table[column] for column in entry(name)["position"]["columns"]])


@pytest.mark.parametrize("name", FILES)
def test_rows_rates_and_positions(name):
    file, rows, rate = FILES[name]
    log = real_log(name, file)
    assert log.joint_names == tuple(entry(name)["joints"])
    assert len(log) == rows
    assert not messages(log)
    position = entry(name)["position"]
    to_joint, offset = np.array(position["to_joint"]), np.array(position["offset"])
    assert_close(log.q, raw_positions(name, file) * position["scale"] @ to_joint.T + offset, SAME_ALGEBRA)
    created = condition(real_robot(name), log)
    assert created.samples.rate_hz == rate == entry(name)["rate_hz"]
    assert set(created.samples.segments) == {0}
    assert created.conditioning.stamps == "uniform"


@pytest.mark.parametrize(("name", "split"), RMS_OF_SCORED_ROWS)
def test_torque_of_the_scored_rows(name, split):
    (block,) = entry(name)["splits"][split]["held_out"]
    file = block["file"] if isinstance(block["file"], str) else block["file"]["position"]
    log = real_log(name, file).between(*block["score_rows"])
    rms = np.sqrt((log.tau**2).mean(axis=0))
    assert np.abs(rms - RMS_OF_SCORED_ROWS[name, split]).max() <= (0.06 if name == "kuka_kr300" else 0.006)


def test_the_ur10_bag_holds_what_its_csv_holds():
    """The CSV rounds to nine digits."""
    text = real_log("ur10_unisa", "ur10_exciting_trajectory.csv")
    bag = read_log(FOLDER / "ur10_unisa" / "ur10_exciting_trajectory.db3", real_robot("ur10_unisa"), side="joint")
    assert_close(bag.time, text.time, 1e-9)
    for signal in ("q", "qd", "tau"):
        assert_close(getattr(bag, signal), getattr(text, signal), 1e-8)


def test_conditioned_tx40_motion_is_that_of_the_plain_pipeline():
    """baselines.md section 2: LP at 40 Hz, np.gradient twice, on the whole file; the arm rests from row 37500 on.

    Only the ends differ, which the plain pipeline mirrors.
    """
    from scipy.signal import butter, sosfiltfilt

    log = real_log("staubli_tx40", "pos_read_data.csv")
    created = condition(real_robot("staubli_tx40"), log, Conditioning(motion_hz=40.0).for_prediction()).samples
    q = sosfiltfilt(butter(4, 40.0, fs=5000.0, output="sos"), log.q, axis=0, padlen=125)
    qd = np.gradient(q, 2e-4, axis=0)
    inner = slice(settling_rows(40.0, 5000.0), -settling_rows(40.0, 5000.0))
    assert_close(created.q[inner], q[inner], SAME_ALGEBRA)
    assert_close(created.qd[inner], qd[inner], 1e-9)
    assert_close(created.qdd[inner], np.gradient(qd, 2e-4, axis=0)[inner], 1e-9)
    assert_close(created.tau, log.tau, SAME_ALGEBRA)


def test_the_lwr4_stamps_jitter():
    columns = {"time": "times", "position": "positions", "torque": "torques"}
    log = real_log("kuka_lwr4", "measurements_1.npz", columns=columns, rate_hz=None)
    created = condition(real_robot("kuka_lwr4"), log)
    assert created.conditioning.stamps == "measured"
    assert created.samples.rate_hz == pytest.approx(200.0, rel=1e-4)
