"""`identify_by`: another method of identification with the conditioning, filter and friction that `identify` chose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mindyn.errors import require_choice
from mindyn.estimators.energy_difference import EnergyDifference
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.identify import Estimator, identify
from mindyn.estimators.instrumental_variables import InstrumentalVariables
from mindyn.estimators.last_link_first import LastLinkFirst
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.total_least_squares import TotalLeastSquares
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import Log
from mindyn.robots.robot import Robot

OTHER_METHODS: Final[Mapping[str, Callable[[Estimate], Estimator]]] = {
    "ordinary": lambda found: LeastSquares(weights="ordinary", covariance="correlated", **_filtered(found)),
    "robust": lambda found: LeastSquares(robust=True, covariance="correlated", **_filtered(found)),
    "last-link-first": lambda found: LastLinkFirst(**_filtered(found)),
    "instruments": lambda found: InstrumentalVariables(**_filtered(found)),
    "momentum": lambda found: EnergyDifference("momentum", friction=found.regressor.friction),
    "total": lambda found: TotalLeastSquares(friction=found.regressor.friction),
}
"""Methods that need nothing but logs, by name: an estimator with the settings of an estimate."""


def identify_by(
    method: str,
    robot: Robot,
    logs: Log | Sequence[Log],
    conditioning: Conditioning | None = None,
    *,
    start: Estimate | None = None,
    progress: Callable[[str], None] = lambda line: None,  # noqa: ARG005
) -> Estimate:
    """The estimate of another method; settings that matter to all are chosen by `identify` on the same logs.

    method  one of `OTHER_METHODS`; nothing is left out, whatever `identify` leaves out
    start   an estimate of `identify` from these logs, where there is one already
    """
    require_choice(method, OTHER_METHODS, "method")
    found = start or identify(robot, logs, None, conditioning, progress=progress)
    progress(f"fitting by the method {method!r}")
    made = identify(robot, logs, OTHER_METHODS[method](found), found.conditioning, progress=progress)
    return made.with_provenance(method=method, notes=[*found.provenance["notes"], *made.provenance["notes"]])


def _filtered(found: Estimate) -> dict[str, Any]:
    return {
        "friction": found.regressor.friction,
        "filter_hz": found.filter_hz,
        "decimation": int(found.provenance["decimation"]),
    }
