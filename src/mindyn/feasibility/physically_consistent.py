"""`PhysicallyConsistent`: the fit whose links are bodies, whose rotors have inertia and whose friction brakes.

How much the prior counts, and which drive parameters are needed at all, is chosen inside the training data. Blocks are
held out in turn; a candidate's error is the mean over blocks of the weighted mean squared residual. Of kinds of drive
parameters the plainest candidate is taken that the blocks do not tell from the best [Breiman et al. 1984], by what the
two differ in on the same blocks. The prior gets the weight of the least error: a heavier one is not plainer, and where
it is wrong, it is wrong on every motion that the logs do not make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.algebra.deviations import MIN_IMPROVEMENT_DEVIATIONS
from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.estimators.estimate import Estimate
from mindyn.estimators.estimate_parts import Physical
from mindyn.estimators.estimator import Estimator, Needs
from mindyn.estimators.least_squares import LeastSquares
from mindyn.estimators.summaries import data_summary
from mindyn.feasibility.bounds import Bounds
from mindyn.feasibility.conic import ConicError
from mindyn.feasibility.constrained_fit import FitProblem, joint_weights
from mindyn.feasibility.physical_space import space_of
from mindyn.feasibility.priors import Divergence, build_prior, require_valid_prior
from mindyn.parameters.parameter import Kind
from mindyn.regression.information import Information, add_information
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

NO_BOUNDS: Final = Bounds()
KIND_NAMES: Final[Mapping[Kind, str]] = {"rotor": "rotor inertias", "friction": "friction shapes"}
PRIOR_WEIGHTS: Final = tuple(float(10.0**k) for k in np.arange(-5.0, 1.1, 0.5))
ROUNDING_RATIO: Final = 1e-9
"""Part of an error that is rounding."""
COMPARISON_PRIOR_WEIGHT: Final = 1e-3
"""Weight of the prior while kinds of parameters are compared."""
DROPPABLE_KINDS: Final[tuple[tuple[Kind, ...], ...]] = (("rotor", "friction"), ("friction",), ("rotor",), ())
"""Kinds of parameters that may go, the plainest model first: rotor inertias and friction shapes."""


@dataclass(frozen=True, slots=True)
class PhysicallyConsistent(Estimator):
    """Settings of a physically consistent fit: least squares over physical parameters, a prior where data say little.

    prior         "robot": the robot's own inertials, unless they are placeholders; another `Robot` with the same links
                  (CAD, a URDF); None: least total mass
    prior_weight  of the prior beside half the mean squared residual in units of its spread; "cross-validated": the
                  one that predicts held-out blocks best (not from one block)
    divergence    "entropic" (log det of pseudo-inertias) or "euclidean": how far from the prior is measured
    bounds        on masses, centres, total mass; planes of symmetry
    kinds         "cross-validated": rotor inertias and friction shapes that held-out blocks do not miss are left out;
                  "all": they stay (the only way with one block)

    weights, covariance, left_out are as in `LeastSquares`, but only parameters of drives, friction and extra torques
    can be left out: a link's are never zero by themselves. "offset", as every other kind of `Parameter`, stands for all
    of that kind: simulators have no torque offsets, and a model for them is best fitted without.
    """

    prior: Robot | Literal["robot"] | None = "robot"
    prior_weight: float | Literal["cross-validated"] = "cross-validated"
    divergence: Divergence = "entropic"
    bounds: Bounds = NO_BOUNDS
    kinds: Literal["cross-validated", "all"] = "cross-validated"
    weights: Literal["joint", "ordinary"] | tuple[float, ...] = "joint"
    covariance: Literal["white", "correlated"] = "white"
    dropped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        weight = self.prior_weight
        if weight != "cross-validated" and not (isinstance(weight, (int, float)) and 0 <= weight < np.inf):
            raise InputError(f'prior_weight = {weight!r}; it may be "cross-validated" or a number that is not negative')
        if self.kinds not in ("cross-validated", "all"):
            raise InputError(f'kinds = {self.kinds!r}; they may be: "cross-validated", "all"')
        require_valid_prior(self.prior, self.divergence)
        self._least_squares()

    @property
    def needs(self) -> Needs:
        """Samples where residuals are looked at one by one."""
        return self._least_squares().needs

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:
        """Any; refuses a prior of other links."""
        build_prior(robot, self.prior, self.divergence)
        return wanted

    def fit(self, rows: Rows) -> Estimate:
        """The estimate; one block leaves none to hold out, so that the prior's weight must be stated with it."""
        if len(rows.blocks) < 2 and self.prior_weight == "cross-validated" and self.prior is not None:
            raise InputError(
                "an Information has no blocks to hold out, so the prior's weight cannot be cross-validated with it",
                hint=f"give the samples, or prior_weight={COMPARISON_PRIOR_WEIGHT:g}",
            )
        if self.weights == "joint":
            rows = rows.without_constant_torques()
        problem, weights, choice = self._choose_problem(rows)
        information = rows.information
        problem = problem.drop_kinds(choice.dropped_kinds)
        if self.weights == "joint":
            x, weights = problem.solve_reweighted(information, weights, choice.weight)
        else:
            x = problem.solve(information, weights, choice.weight)
        x = problem.polish(information, weights, choice.weight, x)
        # What the data say by themselves, of the same columns, and how sure they are.
        zero = [problem.space.labels[k] for k in problem.zero]
        plain = self._least_squares(tuple(name for name in zero if name in rows.regressor.names)).fit(rows)
        return _build_estimate(plain, problem, information, problem.space.move_inside(x), weights, choice)

    def settled_for(self, rows: Rows) -> tuple[PhysicallyConsistent, Callable[[Information], Array]]:
        """The same settings, with the prior's weight and the kinds left out as these rows choose them.

        And beta (p,) that parts of these rows ask for, joints weighted as all of them have it.
        """
        problem, weights, choice = self._choose_problem(rows)
        problem = problem.drop_kinds(choice.dropped_kinds)
        zero = tuple(problem.space.labels[k] for k in problem.zero)
        chosen = replace(self, prior_weight=choice.weight, kinds="all", dropped=zero)
        return chosen, lambda part: problem.space.matrix @ problem.solve(part, weights, choice.weight)

    def _choose_problem(self, rows: Rows) -> tuple[FitProblem, Array, PriorChoice]:
        """What is fitted, the weights of the joints to begin with, and the choice of the prior."""
        information, problem = rows.information, self._build_problem(rows.regressor)
        start = LeastSquares(weights=self.weights).fit(rows)
        weights = start.joint_weights
        assert weights is not None
        stated = COMPARISON_PRIOR_WEIGHT if isinstance(self.prior_weight, str) else self.prior_weight
        if self.weights == "joint":
            weights = joint_weights(information, start.beta)
        problem = problem.relax_compactness(information, weights, stated)
        if self.weights == "joint":
            _, weights = problem.solve_reweighted(information, weights, stated)
        return problem, weights, self._choose_prior(problem, rows.folds(), weights)

    def _least_squares(self, dropped: tuple[str, ...] = ()) -> LeastSquares:
        """The unconstrained fit with the same settings."""
        return LeastSquares(weights=self.weights, covariance=self.covariance, dropped=dropped)

    def _build_problem(self, regressor: Regressor) -> FitProblem:
        space = space_of(regressor)
        can = space.drive_labels()
        meant = {name: [name] if name in can else space.drive_labels(name) for name in self.dropped}
        unknown = [name for name, labels in meant.items() if not labels]
        if unknown:
            raise InputError(
                f"{', '.join(unknown)} cannot be left out of a consistent fit; these can: {', '.join(can)}",
                hint="a link's parameters are never zero by themselves: the prior takes their place",
            )
        zero = tuple({space.labels.index(one): None for labels in meant.values() for one in labels})
        return FitProblem(
            space, build_prior(regressor.robot, self.prior, self.divergence), self.bounds.rows(space), zero
        )

    def _choose_prior(self, problem: FitProblem, folds: Sequence[Information], weights: Array) -> PriorChoice:
        stated = None if isinstance(self.prior_weight, str) else self.prior_weight
        if not problem.prior.is_known:
            stated = 0.0  # least mass is a tie-break with a weight of its own
        if stated is not None and (len(folds) < 2 or self.kinds == "all"):
            return PriorChoice(stated, (), ())
        return choose_prior(problem, folds, weights, stated, kinds=self.kinds == "cross-validated")


def _build_estimate(
    plain: Estimate, problem: FitProblem, information: Information, x: Array, weights: Array, choice: PriorChoice
) -> Estimate:
    beta, prior = problem.space.matrix @ x, problem.prior
    prior_shares = problem.prior_fractions(information, weights, choice.weight, x) if prior.is_known else None
    rms = np.sqrt(information.residuals(beta) / information.counts)
    near = tuple(name for name, phi in zip(plain.robot.link_names, prior.links, strict=True) if phi is not None)
    return replace(
        plain,
        beta=beta,
        residuals=tuple(replace(one, rms=float(r)) for one, r in zip(plain.residuals, rms, strict=True)),
        status=_format_status(plain, problem, information, beta, choice),
        method="physically consistent",
        joint_weights=weights,
        physical=Physical(problem.space.labels, x, plain.beta, near, prior_shares),
        provenance={
            **plain.provenance,
            "prior": prior.sentence,
            "prior_weight": choice.weight,
            "prior_notes": list(prior.notes),
            "kinds_left_out": list(choice.dropped_kinds),
            "tried": list(choice.tried),
        },
    )


def _format_status(
    plain: Estimate, problem: FitProblem, information: Information, beta: Array, choice: PriorChoice
) -> str:
    torque = information.torques().sum()
    error, least = (100 * np.sqrt(information.residuals(b).sum() / torque) for b in (beta, plain.beta))
    kept = len(beta) - len(plain.dropped)
    source = data_summary(information, plain.settings)
    weight = f", weight {choice.weight:.2g}" if problem.prior.is_known else ""
    kinds = [KIND_NAMES[kind] for kind in choice.dropped_kinds]
    gone = [f"{' and '.join(kinds)} were left out, since held-out blocks do not miss them"] if kinds else []
    wide = [] if problem.compact else [f"links are wider than the robot's known reach of {problem.space.reach:.2g} m"]
    notes = "".join(f" Note: {note}." for note in (*gone, *wide, *problem.prior.notes))
    return (
        f"{kept} physically consistent parameters from {source} leave {error:.3g} % of the torque "
        f"unexplained ({least:.3g} % without the constraint); {problem.prior.sentence}{weight}.{notes}"
    )


@dataclass(frozen=True, slots=True, eq=False)
class PriorChoice:
    """The weight, the kinds of parameters left out, and the errors (mean, standard error) that decided it."""

    weight: float
    dropped_kinds: tuple[Kind, ...]
    tried: tuple[dict[str, Any], ...]


def choose_prior(
    problem: FitProblem, folds: Sequence[Information], weights: Array, weight: float | None, *, kinds: bool
) -> PriorChoice:
    """The choice of the weight, unless it is given, and with `kinds` of what may be left out."""
    models: list[tuple[Kind, ...]] = _distinct_models(problem) if kinds else [()]
    tried: list[dict[str, Any]] = []
    without = models[0]
    if len(models) > 1:
        at = COMPARISON_PRIOR_WEIGHT if weight is None else weight
        without = models[
            _select_simplest(_compute_errors(problem, folds, weights, [(one, at) for one in models], tried))
        ]
    if weight is not None:
        return PriorChoice(weight, without, tuple(tried))
    errors = _compute_errors(problem, folds, weights, [(without, one) for one in PRIOR_WEIGHTS], tried)
    return PriorChoice(PRIOR_WEIGHTS[int(errors.mean(axis=1).argmin())], without, tuple(tried))


def _distinct_models(problem: FitProblem) -> list[tuple[Kind, ...]]:
    """Kinds that leave different models."""
    made: dict[tuple[int, ...], tuple[Kind, ...]] = {}
    for kind in reversed(DROPPABLE_KINDS):
        made.setdefault(problem.drop_kinds(kind).zero, kind)
    return list(reversed(made.values()))


def _select_simplest(errors: Array) -> int:
    """The first candidate whose error is not surely above the least, of errors (candidates, folds)."""
    best = errors[int(errors.mean(axis=1).argmin())]
    solved: NDArray[np.bool_] = np.asarray(np.isfinite(errors).all(axis=1))
    more = np.where(solved[:, None], errors, best) - best
    bound = (
        MIN_IMPROVEMENT_DEVIATIONS * more.std(axis=1, ddof=1) / np.sqrt(errors.shape[1]) + ROUNDING_RATIO * best.mean()
    )
    return int(np.argmax(solved & (more.mean(axis=1) <= bound)))


def _compute_errors(
    problem: FitProblem,
    folds: Sequence[Information],
    weights: Array,
    candidates: Sequence[tuple[tuple[Kind, ...], float]],
    tried: list[dict[str, Any]],
) -> Array:
    """(candidates, folds) errors on each fold of fits to the others; all are written down."""
    errors = np.array(
        [_fold_errors(problem.drop_kinds(without), folds, weights, weight) for without, weight in candidates]
    )
    tried += [
        {"without": list(without), "weight": weight, "error": float(own.mean()), "spread": _standard_error(own)}
        for (without, weight), own in zip(candidates, errors, strict=True)
    ]
    if not np.isfinite(errors).all(axis=1).any():
        raise ConicError("none of the conic programs of the prior's weights was solved", hint="state prior_weight")
    return errors


def _standard_error(errors: Array) -> float:
    """Standard error of the mean; zero where there is none."""
    return float(errors.std(ddof=1) / np.sqrt(len(errors))) if np.isfinite(errors).all() else 0.0


def _fold_errors(problem: FitProblem, folds: Sequence[Information], weights: Array, prior_weight: float) -> list[float]:
    found = []
    for held in range(len(folds)):
        rest = add_information([fold for k, fold in enumerate(folds) if k != held])
        try:
            beta = problem.space.matrix @ problem.solve(rest, weights, prior_weight)
        except ConicError:
            return [float("inf")] * len(folds)  # another weight will do
        found.append(float(weights @ folds[held].residuals(beta)) / sum(folds[held].counts))
    return found
