"""Step of Dormand and Prince's explicit Runge-Kutta method of order 8(5,3), with its error estimate.

[Hairer, Norsett, Wanner 1993, Solving Ordinary Differential Equations I, II.5 and code DOP853]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mindyn.algebra.values import Array

STAGE_COUNT = 12

_STAGE_ENTRIES: tuple[dict[int, float], ...] = (
    {},
    {0: 0.05260015195876773},
    {0: 0.0197250569845379, 1: 0.0591751709536137},
    {0: 0.02958758547680685, 2: 0.08876275643042054},
    {0: 0.2413651341592667, 2: -0.8845494793282861, 3: 0.924834003261792},
    {0: 0.037037037037037035, 3: 0.17082860872947386, 4: 0.12546768756682242},
    {0: 0.037109375, 3: 0.17025221101954405, 4: 0.06021653898045596, 5: -0.017578125},
    {
        **{0: 0.03709200011850479, 3: 0.17038392571223998, 4: 0.10726203044637328, 5: -0.015319437748624402},
        **{6: 0.008273789163814023},
    },
    {
        **{0: 0.6241109587160757, 3: -3.3608926294469414, 4: -0.868219346841726, 5: 27.59209969944671},
        **{6: 20.154067550477894, 7: -43.48988418106996},
    },
    {
        **{0: 0.47766253643826434, 3: -2.4881146199716677, 4: -0.590290826836843, 5: 21.230051448181193},
        **{6: 15.279233632882423, 7: -33.28821096898486, 8: -0.020331201708508627},
    },
    {
        **{0: -0.9371424300859873, 3: 5.186372428844064, 4: 1.0914373489967295, 5: -8.149787010746927},
        **{6: -18.52006565999696, 7: 22.739487099350505, 8: 2.4936055526796523, 9: -3.0467644718982196},
    },
    {
        **{0: 2.273310147516538, 3: -10.53449546673725, 4: -2.0008720582248625, 5: -17.9589318631188},
        **{6: 27.94888452941996, 7: -2.8589982771350235, 8: -8.87285693353063, 9: 12.360567175794303},
        **{10: 0.6433927460157636},
    },
)
_WEIGHTS = {
    **{0: 0.054293734116568765, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585},
    **{8: 0.3111643669578199, 9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.04471061572777259},
}
_THIRD_ORDER_ERROR = {
    **{0: -0.18980075407240762, 5: 4.450312892752409, 6: 1.8915178993145003, 7: -5.801203960010585},
    **{8: -0.4226823213237919, 9: -0.1521609496625161, 10: 0.20136540080403034, 11: 0.02265179219836082},
}
_FIFTH_ORDER_ERROR = {
    **{0: 0.01312004499419488, 5: -1.2251564463762044, 6: -0.4957589496572502, 7: 1.6643771824549864},
    **{8: -0.35032884874997366, 9: 0.3341791187130175, 10: 0.08192320648511571, 11: -0.022355307863886294},
}


def _weight_row(entries: dict[int, float]) -> Array:
    row = np.zeros(STAGE_COUNT)
    row[list(entries)] = list(entries.values())
    row.setflags(write=False)
    return row


STAGE_WEIGHTS = np.stack([_weight_row(entries) for entries in _STAGE_ENTRIES])
"""(12, 12): stage i is evaluated at y + h sum_j STAGE_WEIGHTS[i, j] k_j."""
STEP_WEIGHTS = _weight_row(_WEIGHTS)
"""(12,): the step of order 8."""
ERROR_WEIGHTS = np.stack([_weight_row(_FIFTH_ORDER_ERROR), _weight_row(_THIRD_ORDER_ERROR)])
"""(2, 12): the step of order 8 minus the steps of order 5 and 3."""


Slope = Callable[[Array], Array]

_SAFETY, _MIN_GROWTH, _MAX_GROWTH = 0.9, 0.2, 6.0
_ORDER = 8
_STAGE_ROWS = [STAGE_WEIGHTS[i, :i].copy() for i in range(STAGE_COUNT)]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerance of a step: the root mean square of its local error stays below absolute + relative * |y|."""

    relative: float = 1e-12
    absolute: float = 1e-12


def dormand_prince_step(slope: Slope, y: Array, first: Array, h: float) -> tuple[Array, Array]:
    """Return y after time h, and the slopes (12, size) of the stages; `first` is the slope at y."""
    slopes = np.empty((STAGE_COUNT, len(y)))
    slopes[0] = first
    for i in range(1, STAGE_COUNT):
        slopes[i] = slope(y + (h * _STAGE_ROWS[i]) @ slopes[:i])
    return y + (h * STEP_WEIGHTS) @ slopes, slopes


def error_ratio(y: Array, y_next: Array, slopes: Array, h: float, tolerance: Tolerance) -> float:
    """Return the estimated error of a step relative to the tolerance [Hairer, Norsett, Wanner 1993, II.10]."""
    scale = tolerance.absolute + tolerance.relative * np.maximum(np.abs(y), np.abs(y_next))
    fifth, third = ERROR_WEIGHTS @ slopes / scale
    large, small = float(fifth @ fifth), float(third @ third)
    if large == 0.0:
        return 0.0
    return abs(h) * large / float(np.sqrt((large + 0.01 * small) * len(y)))


def next_step_size(h: float, ratio: float) -> float:
    """Return the size of a step that meets the tolerance, with a safety factor."""
    growth = _MAX_GROWTH if ratio == 0.0 else _SAFETY * ratio ** (-1 / _ORDER)
    return h * min(_MAX_GROWTH, max(_MIN_GROWTH, growth))
