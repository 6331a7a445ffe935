"""Every threshold that decides whether a finding about a log appears.

The rates come from `make study NAME=spoiled`: 100 sound logs and 100 logs with each fault, of random arms with 4 to 7
joints, identified with given settings. `f` is the number of false alarms in 100 sound logs, and `m` the number of
missed faults in 100 faulty logs. If none of 100 occurs, the true rate is below 3.6 % (95 % interval). Names such as
`zero 10` are faults of that study.

False alarms of 100 logs, in brackets those of version 0.2.0: sound 0 (0), no file 0, set 1, impact 1. Misses: zero 10 1
(1), zero 90 0 (0), current 0 (0), unit 0 (0), sign 3 (0), reversed 0, swapped 7, sideways 0 (0), slope 0 (0),
compensated 0 (0), one joint 0 (0), constant speed 0 (0), noise 0 (0), constant 0 (0), saturated 0 (0), late joint 6
(5), passive 21, warming 0 (0), gain 20 % 44 (44), gain 5 % 86 (87), no file, unit 0, no file, current 9, log without
weight 0, log with a load 2, mode 16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Motion
MIN_JOINT_RANGE: Final[Mapping[str, float]] = {"revolute": 0.03, "prismatic": 0.005}
"""Range in rad or m that a joint must move through: less is backlash, noise, or vibration from other joints.
Rates: f 0 of 100, m 0 of 100 (one joint)."""
MAX_UNCERTAINTY: Final = 1.0
"""Standard deviation of the torque on other motion, relative to the torque of the log: sound logs 0.01 to 0.06, joints
at constant speed 60 and more. Rates: f 0 of 100, m 0 of 100 (constant speed)."""
MIN_SPEED_RAD_S: Final = 1.0
"""Least rms speed of turning joints in that other motion: slow motion shows gravity and friction alone. Rates: as
above."""
MAX_CONSTRAINED_UNCERTAINTY: Final = 4.0
"""The same if the values are physically consistent, which the uncertainty does not include: two short motions of a
KR300 have 1.4, and the consistent fit predicts a third one to 13 %. Rates: not measured."""
MIN_ROWS_PER_PARAMETER: Final = 10
"""Rows for each parameter, or joint, below which signs and the robot file are not compared. Rates: not measured."""

# Torque
MAX_SATURATED_FRACTION: Final = 0.01
"""Fraction of rows at the largest or the least torque. Rates: f 0 of 100, m 0 of 100 (saturated)."""
MAX_DISTINCT_FRACTION: Final = 0.3
"""Fraction of different values below which a signal counts as rounded. Rates: as above."""
MIN_SATURATION_RATIO: Final = 8.0
"""How many times as often as the next value a rounded signal must take its largest value. Rates: as above."""
UNRELATED_FRACTION: Final = 0.75
"""Unexplained fraction of the variance of every joint's torque. Rates: f 0 of 100, m 0 of 100 (noise)."""
UNEXPLAINED_FRACTION: Final = 1 / 3
"""Unexplained fraction of a joint's rms torque: sound logs of four real arms 0.01 to 0.31, logs with a reversed torque
mostly 0.4 and more. Rates: f 0 of 100; misses not measured."""
SENSOR_FRACTION: Final = 0.01
"""... where it is more than this fraction of the largest joint's torque: joint 6 of a sound LWR4+ leaves 39 % of
0.7 N m, next to 26 N m. Rates: as above."""
SIGN_FRACTION: Final = 0.1
"""Fraction of a joint's power that friction delivers, or of its torque that a negative inertia makes: friction of sound
logs delivers at most 0.02, with a reversed torque 0.14 to 1. Rates: f 0 of 100, m 3 of 100 (sign)."""
MIN_DRIFT: Final = (0.07, 5.0)
"""Change of friction from the beginning to the end of the logs, relative to its mean, and in standard deviations: sound
logs at most 3.6 deviations above 7 %; friction that falls by a fifth or more, 5 to 29 in most. Rates: see `warming`."""
MIN_GAIN_ERROR: Final = (0.03, 10.0)
"""Deviation of a joint's gain from that of the others, and in standard deviations: at most 5 in most sound logs, 9 in
one of 100 whose friction grows with the load; 20 % make 12 to 45. Rates: see `gain 20 %` and `gain 5 %`."""
SIGNIFICANT: Final = 3.0
"""Standard deviations of a payload, or of one joint's drift, that count as significant. Rates: not measured."""

# Timing
MIN_JOINT_DELAY_S: Final = 0.02
"""Delay of one joint relative to the others: flexible joints and friction appear as delays of up to 25 ms. Rates: `make
study NAME=plants`, sound and late joint."""
MIN_DELAY_ROWS: Final = 3
"""Rows of the log that a joint's delay must span: interpolation between rows alone looks like a delay of two rows.
Rates: as above."""
FRICTION_DOMINATED_FRACTION: Final = 2 / 3
"""Fraction of the variance of a joint's torque due to friction above which its delay is not estimated: sound logs of
measured wrists appear delayed by up to 60 ms. Rates: as above."""

# Geometry and robot file
MIN_COMPARED_FRACTION: Final = 0.1
"""Smallest torque of the robot file's inertial parameters, relative to the largest, from which a joint is compared, and
smallest variation of a weight, relative to g, for which gravity is checked. Rates: those of the findings by the robot
file, and of absent gravity."""
FILE_EXPLAINS: Final = 0.4
"""Root of the misfit up to which the log agrees with the shape of the file's torque. Rates: as above."""
MAX_CORRECTED: Final = 0.65
"""Misfit to the robot file, or rms residual by the motion alone, relative to that without the correction. Sound
measured logs: 0.83 and more by the file, 0.8 by the motion; a zero 10 degrees off: 0.1 to 0.63 and 0.27 to 0.77.
Rates: f 0 of 100, m 1 of 100 (zero 10), 0 of 100 (sideways, slope)."""
MIN_MISFIT: Final = 0.09
"""Root of the misfit below which joint zeros are not checked: 10 degrees cause 0.16 and more on measured arms. Rates:
see `zero 10`."""
LARGE_MISFIT: Final = 0.3
"""Root of the misfit from which signs, order and gravity may be wrong. Rates: see `sign`, `sideways`."""
MIN_ZERO_DEG: Final = (6.0, 20.0)
"""Error of a joint zero that a centre of mass cannot explain: at a joint that carries others, and at the last one.
Rates: f 0 of 100; m see `zero 10`, `zero 90`."""
CENTRE_ERROR_M: Final = 0.03
"""Error of a file's centres of mass, two standard deviations: seen from the axis, it acts like a wrong zero. Rates: see
`zero 10`."""
HANDICAPS: Final[Mapping[str, float]] = {"masses": 1.1, "zero": 1.05, "tilt": 1.2}
"""Factors on the misfits of corrections that explain more by chance. Rates: as those of `MAX_CORRECTED`."""
ALONG_AXIS: Final = 0.2
"""Distance from an axis of the base, relative to g, up to which gravity counts as along it. Rates: see `slope`."""
MAX_SCALE: Final = 3.0
"""Ratio of torque and the file's torque up to which masses or a payload explain it, and by which a ratio may differ
from 1000 to count as mN m or kN m. Rates: f 0 of 100; m 0 of 100 (unit), see `current`."""
PLAUSIBLE_WEIGHT: Final = (0.2, 60.0)
"""First moment of an arm's mass about its shoulder divided by the fourth power of its reach, kg/m^3, in a file without
masses: 0.5 to 12 for 26 measured and published arms from 0.7 to 3.6 m, 30 for the Stanford arm. Rates: f 0 of 100
(no file), m 0 of 100 (no file, unit), 9 of 100 (no file, current)."""
MIN_WEIGHT_SWING: Final = 3.0
"""Standard deviation of a joint's weight over the log, relative to the noise of its torque, from which the joint says
whether the torque contains it. Rates: as below."""
MIN_WEIGHT_NATS: Final = 7.0
"""By how much the log likelihood of a torque must be larger without the weight of the file's masses than with it.
Rates: `make study NAME=plants`, weightless and sound."""
MAX_WEIGHTLESS_REST: Final = 0.35
"""Largest part of the torque, rms over the joints, that the dynamics without weight may leave. Rates: as above."""
MAX_WEIGHTLESS_RATIO: Final = 0.8
"""Rms residual without weight relative to that with it, below which gravity is absent. Rates: as above."""

# Load and contact
MIN_LOAD_BLOCKS: Final = 4
"""Smallest number of blocks of a log whose payload is checked. Rates: not measured."""
MIN_LOAD_GAIN: Final = 0.1
"""ln of the ratio of errors without and with another payload, on blocks that were not fitted: below 0 on simulated arms
with one payload, also with warming, flexible and unevenly scaled drives. Rates: f 1 of 100 (set), m 2 of 100
(log with a load, 3 to 10 % of the arm's mass)."""
MIN_LOAD_KG: Final = 0.05
"""Smallest payload that is reported by its mass; a change within a log must be larger. Rates: as above."""
CONTACT_S: Final = 0.1
"""Time over which residuals are averaged, and shortest duration of a contact. Rates: as below."""
CONTACT_DEVIATIONS: Final = 8.0
"""Robust standard deviations of a residual that counts as contact. Rates: as below."""
MAX_CONTACT_ROWS: Final = 0.05
"""Fraction of the rows in segments that hold more than half of the residuals' power: sound logs have at most 15 % of it
there, three pushes in 30 s 80 %. Rates: f 0 of 100, with impacts of 20 ms 1 of 100;
misses not measured."""

# Residuals of the fit
MIN_DEPENDENT_POWER: Final = 0.25
"""Fraction of a residual's power that position, direction, load or speed predict on other blocks. Rates: `make study
NAME=misfit`."""
MIN_DEPENDENT_TORQUE: Final = 0.02
"""Size of that part, relative to the joint's torque. Rates: as above."""
LARGE_DEPENDENT_TORQUE: Final = 0.05
"""The same from which the finding is a warning: load friction of 5 % that given settings do not contain leaves 2 to
3 %. Rates: as above."""

# Residuals in the report
MIN_PATTERN_POWER: Final = 0.25
"""Fraction of the residual's power that a signature explains. Rates: not measured."""
