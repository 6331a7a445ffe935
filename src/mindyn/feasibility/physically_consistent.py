"""`PhysicallyConsistent`: the fit whose links are bodies, whose rotors have inertia and whose friction brakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.identify import identify
from mindyn.estimators.least_squares import PLAIN, LeastSquares, told_from
from mindyn.feasibility.bounds import Bounds
from mindyn.feasibility.constrained_fit import FitProblem, joint_weights
from mindyn.feasibility.folds import fold_information
from mindyn.feasibility.physical_space import space_of
from mindyn.feasibility.prior_weight import MIDDLE, Choice, choose
from mindyn.feasibility.priors import Divergence, prior_of, require_known
from mindyn.logs.conditioning import Conditioning
from mindyn.logs.log import Log
from mindyn.logs.reading import LogScan
from mindyn.logs.samples import Samples
from mindyn.parameters.base import BaseParameters
from mindyn.regression.friction import Friction
from mindyn.regression.information import Information, combined
from mindyn.regression.regressor import Regressor
from mindyn.robots.robot import Robot

NO_BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class PhysicallyConsistent:
    """Settings of a physically consistent fit: least squares over physical parameters, a prior where data say little.

    prior         "robot": the robot's own inertials, unless they are placeholders; another `Robot` with the same links
                  (CAD, a URDF); None: least total mass
    prior_weight  of the prior beside half the mean squared residual in units of its spread; "cross-validated": the
                  heaviest that predicts held-out blocks within one standard error of the best (not from Information)
    divergence    "entropic" (log det of pseudo-inertias) or "euclidean": how far from the prior is measured
    bounds        on masses, centres, total mass; planes of symmetry
    kinds         "cross-validated": rotor inertias and friction shapes that held-out blocks do not miss are left out;
                  "all": they stay (the only way with Information)

    weights, covariance, friction, filter_hz, decimation, left_out, base are as in `LeastSquares`, but only
    parameters of drives, friction and extra torques can be left out: a link's are never zero by themselves.
    """

    prior: Robot | Literal["robot"] | None = "robot"
    prior_weight: float | Literal["cross-validated"] = "cross-validated"
    divergence: Divergence = "entropic"
    bounds: Bounds = NO_BOUNDS
    kinds: Literal["cross-validated", "all"] = "cross-validated"
    weights: Literal["joint", "ordinary"] | tuple[float, ...] = "joint"
    covariance: Literal["white", "correlated"] = "white"
    friction: Friction = PLAIN
    filter_hz: float | None = None
    decimation: int = 1
    left_out: tuple[str, ...] = ()
    base: BaseParameters | None = None

    def __post_init__(self) -> None:
        weight = self.prior_weight
        if weight != "cross-validated" and not (isinstance(weight, (int, float)) and 0 <= weight < np.inf):
            raise InputError(f'prior_weight = {weight!r}; it may be "cross-validated" or a number that is not negative')
        if self.kinds not in ("cross-validated", "all"):
            raise InputError(f'kinds = {self.kinds!r}; they may be: "cross-validated", "all"')
        require_known(self.prior, self.divergence)
        self.least_squares()

    def least_squares(self, **changes: Any) -> LeastSquares:
        """The unconstrained fit with the same settings."""
        plain = LeastSquares(
            weights=self.weights,
            covariance=self.covariance,
            friction=self.friction,
            filter_hz=self.filter_hz,
            decimation=self.decimation,
            base=self.base,
        )
        return replace(plain, **changes)

    def fit(self, robot: Robot, data: Samples | Iterable[Samples] | Information) -> Estimate:
        """The estimate; `Information` has no blocks to hold out, so that the prior's weight must be stated with it."""
        regressor = self.least_squares().regressor(robot)
        folds = self._folds(regressor, data)
        information = combined(folds)
        if information.names != regressor.names:
            raise InputError("the information is of other parameters than this fit's: robot or friction differ")
        problem = self._problem(regressor)
        start = self.least_squares(covariance="white").fit(robot, information)
        weights = np.array(start.provenance["joint_weights"])
        stated = MIDDLE if isinstance(self.prior_weight, str) else self.prior_weight
        if self.weights == "joint":
            weights = joint_weights(information, start.beta)
        problem = problem.as_wide_as_told(information, weights, stated)
        if self.weights == "joint":
            _, weights = problem.reweighted(information, weights, stated)
        choice = self._choice(problem, folds, weights)
        problem = problem.without(choice.without)
        if self.weights == "joint":
            x, weights = problem.reweighted(information, weights, choice.weight)
        else:
            x = problem.solve(information, weights, choice.weight)
        plain = self._unconstrained(robot, regressor, problem, data, information)
        return _estimate(plain, problem, information, problem.space.inside(x), weights, choice)

    def _folds(self, regressor: Regressor, data: Samples | Iterable[Samples] | Information) -> list[Information]:
        if not isinstance(data, Information):
            return fold_information(regressor, data, self.filter_hz, self.decimation)
        if self.prior_weight == "cross-validated" and self.prior is not None:
            raise InputError(
                "an Information has no blocks to hold out, so the prior's weight cannot be cross-validated with it",
                hint=f"give the samples, or prior_weight={MIDDLE:g}",
            )
        return [data]

    def _problem(self, regressor: Regressor) -> FitProblem:
        space = space_of(regressor)
        unknown = [name for name in self.left_out if name not in space.drive_labels()]
        if unknown:
            raise InputError(
                f"{', '.join(unknown)} cannot be left out of a consistent fit; "
                f"these can: {', '.join(space.drive_labels())}",
                hint="a link's parameters are never zero by themselves: the prior takes their place",
            )
        zero = tuple(space.labels.index(name) for name in self.left_out)
        return FitProblem(space, prior_of(regressor.robot, self.prior, self.divergence), self.bounds.rows(space), zero)

    def _choice(self, problem: FitProblem, folds: Sequence[Information], weights: Array) -> Choice:
        stated = None if isinstance(self.prior_weight, str) else self.prior_weight
        if not problem.prior.believed:
            stated = 0.0  # least mass is a tie-break with a weight of its own
        if stated is not None and (len(folds) < 2 or self.kinds == "all"):
            return Choice(stated, (), ())
        return choose(problem, folds, weights, stated, kinds=self.kinds == "cross-validated")

    def _unconstrained(
        self,
        robot: Robot,
        regressor: Regressor,
        problem: FitProblem,
        data: Samples | Iterable[Samples] | Information,
        information: Information,
    ) -> Estimate:
        """Least squares with the same columns: what the data say by themselves, and how sure they are."""
        zero = [problem.space.labels[k] for k in problem.zero]
        left_out = tuple(name for name in zero if name in regressor.names)
        if isinstance(data, Samples) and self.covariance == "correlated":
            return self.least_squares(left_out=left_out).fit(robot, data)
        return self.least_squares(left_out=left_out, covariance="white").fit(robot, information)


def _estimate(
    plain: Estimate, problem: FitProblem, information: Information, x: Array, weights: Array, choice: Choice
) -> Estimate:
    beta = problem.space.matrix @ x
    rms = np.sqrt(information.residuals(beta) / information.counts)
    residuals = tuple(replace(one, rms=float(r)) for one, r in zip(plain.residuals, rms, strict=True))
    provenance = {
        **plain.provenance,
        "estimator": "physically consistent",
        "joint_weights": weights.tolist(),
        "prior": problem.prior.sentence,
        "prior_links": [
            name for name, phi in zip(plain.robot.link_names, problem.prior.links, strict=True) if phi is not None
        ],
        "prior_weight": choice.weight,
        "prior_notes": list(problem.prior.notes),
        "kinds_left_out": list(choice.without),
        "tried": list(choice.tried),
        "unconstrained": plain.beta.tolist(),
        "physical": {"labels": list(problem.space.labels), "values": x.tolist()},
    }
    return replace(
        plain,
        beta=beta,
        residuals=residuals,
        status=_status(plain, problem, information, beta, choice),
        provenance=provenance,
    )


def _status(plain: Estimate, problem: FitProblem, information: Information, beta: Array, choice: Choice) -> str:
    torque = information.torques().sum()
    error, least = (100 * np.sqrt(information.residuals(b).sum() / torque) for b in (beta, plain.beta))
    kept = len(beta) - len(plain.left_out)
    source = told_from(information, plain.filter_hz, int(plain.provenance["decimation"]))
    weight = f", weight {choice.weight:.2g}" if problem.prior.believed else ""
    kinds = [word for kind, word in (("Im", "rotor inertias"), ("f_", "friction shapes")) if kind in choice.without]
    gone = [f"{' and '.join(kinds)} were left out, since held-out blocks do not miss them"] if kinds else []
    wide = [] if problem.compact else [f"links are wider than the robot's known reach of {problem.space.reach:.2g} m"]
    notes = "".join(f" Note: {note}." for note in (*gone, *wide, *problem.prior.notes))
    return (
        f"{kept} physically consistent parameters from {source} leave {error:.3g} % of the torque "
        f"unexplained ({least:.3g} % without the constraint); {problem.prior.sentence}{weight}.{notes}"
    )


def identify_consistent(
    robot: Robot,
    logs: Log | LogScan | Sequence[Log | LogScan],
    conditioning: Conditioning | None = None,
    *,
    prior: Robot | Literal["robot"] | None = "robot",
    bounds: Bounds = NO_BOUNDS,
    start: Estimate | None = None,
    progress: Callable[[str], None] = lambda line: None,  # noqa: ARG005
) -> Estimate:
    """`identify`, then the physically consistent fit with the conditioning, filter and friction that it chose.

    prior, bounds  as in `PhysicallyConsistent`
    start          an estimate of `identify` from these logs, where there is one already
    """
    prior_of(robot, prior)  # refused now rather than after the first fit
    found = start or identify(robot, logs, None, conditioning, progress=progress)
    if found.conditioning is None:
        raise InputError("the estimate to start from was made from samples: fit them with PhysicallyConsistent(...)")
    estimator = PhysicallyConsistent(
        prior=prior,
        bounds=bounds,
        covariance="correlated",
        friction=found.regressor.friction,
        filter_hz=found.filter_hz,
        decimation=int(found.provenance["decimation"]),
    )
    progress("physically consistent fit of all training rows")
    made = identify(robot, logs, estimator, found.conditioning, progress=progress)
    setting = {**made.provenance["setting"], "without": made.provenance["kinds_left_out"]}
    score = found.provenance.get("cross_validated")
    of_start = score and {**score, "of": "least squares, which chose the settings"}
    return made.with_provenance(setting=setting, cross_validated=of_start)
