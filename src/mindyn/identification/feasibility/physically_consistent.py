"""`PhysicallyConsistent`: the fit with physical links, positive rotor inertia and dissipative friction.

The weight of the prior, and the kinds of drive parameters that are needed, are selected within the training data:
blocks are held out in turn, and the error of a candidate is the mean over blocks of the weighted mean squared residual.
Among kinds of drive parameters, the simplest candidate is taken that does not differ significantly from the best one
[Breiman et al. 1984], by differences on the same blocks. Values of a prior are a guess: the prior gets the smallest
weight whose error is not significantly larger than the least one, so that it acts in directions that the data leave
undetermined. Links keep a fraction of the pseudo-inertia of the prior, which bounds the inertia matrix from below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from mindyn.foundation.algebra.significance import MIN_IMPROVEMENT_DEVIATIONS, exceeds_zero
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.identification.estimators.estimate import Estimate, Estimator, Needs
from mindyn.identification.estimators.fit_summary import data_summary
from mindyn.identification.estimators.least_squares import LeastSquares, fit_weighted
from mindyn.identification.estimators.records import Physical
from mindyn.identification.feasibility.bounds import Bounds
from mindyn.identification.feasibility.conic import ConicError
from mindyn.identification.feasibility.constrained_fit import MIN_PRIOR_FRACTION, FitProblem, solve_all
from mindyn.identification.feasibility.physical_space import space_of
from mindyn.identification.feasibility.plausible_limits import plausible_limits
from mindyn.identification.feasibility.priors import Divergence, build_prior, require_valid_prior
from mindyn.parameters.parameter import Kind
from mindyn.regression.information import Information, add_information, joint_weights
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

NO_BOUNDS: Final = Bounds()
KIND_NAMES: Final[Mapping[Kind, str]] = {"rotor": "rotor inertias", "friction": "friction shapes"}
PRIOR_STEPS: Final = tuple(float(10.0**k) for k in range(5))
"""Weights of the prior that are tried, as multiples of that of one row [Kass & Wasserman 1995]: a prior that counts as
one row moves well determined values by less than their deviation. On 8 simulated arms whose files have masses 15 % off
or wrong by up to a factor of 3, 0.4 and 4 times this weight change the error on another motion by -0.1 and +0.2 %, or
-0.4 and -1.3 %, compared with a weight near zero; the largest total mass is 1.3 instead of 2 times the true one."""
TINY_ERROR: Final = 1e-300
ROUNDING_RATIO: Final = 1e-9
"""Relative rounding error of an error."""
COMPARISON_PRIOR_WEIGHT: Final = 1e-3
"""Weight of the prior during the comparison of kinds of parameters."""
DROPPABLE_KINDS: Final[tuple[tuple[Kind, ...], ...]] = (("rotor", "friction"), ("friction",), ("rotor",), ())
"""Kinds of parameters that can be dropped, simplest model first: rotor inertias and friction shapes."""


Candidate = tuple[tuple[Kind, ...], float]
"""Kinds that are dropped, and the weight of the prior."""


@dataclass(frozen=True, slots=True)
class PhysicallyConsistent(Estimator):
    """Estimator for physically consistent parameters: constrained least squares with a prior for uninformative data.

    Only parameters of drives, friction and extra torques can be dropped: link parameters are never zero individually.

    Parameters
    ----------
    prior : Robot, "robot" or None
        "robot": the inertial parameters of the robot unless they are placeholders; links without any take balls of even
        mass where the data leave them open. A `Robot` with the same links: CAD
        or URDF values. None: smallest total mass.
    prior_weight : float or "cross-validated"
        Weight of the prior relative to half the mean squared residual in units of its variance. "cross-validated": the
        smallest weight, from that of one row on, that does not predict held-out blocks significantly worse than the
        best one; needs more than one block.
    divergence : {"entropic", "euclidean"}
        Measure of the distance from the prior; "entropic" is the log-determinant divergence of pseudo-inertias.
    bounds : Bounds
        Limits on masses, centres and total mass, and planes of symmetry.
    kinds : {"cross-validated", "all"}
        "cross-validated": drop rotor inertias and friction shapes that do not improve the prediction of held-out
        blocks. "all": keep them, the only choice with one block.
    weights : {"joint", "ordinary"} or tuple of float
        Weights of the joints, as in `LeastSquares`.
    covariance : {"white", "correlated"}
        Noise model, as in `LeastSquares`.
    dropped : tuple of str
        Parameters that are zero, by name or by kind. "offset" stands for all torque offsets: simulators have none, so a
        model for them is fitted best without.

    Raises
    ------
    InputError
        If a setting is unknown or out of range.
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
            raise InputError(
                f'prior_weight must be "cross-validated" or a nonnegative number, got {weight!r}',
                code=Code.OUT_OF_RANGE,
                subject="prior_weight",
            )
        require_choice(self.kinds, ("cross-validated", "all"), "kinds")
        require_valid_prior(self.prior, self.divergence)
        self._least_squares()

    @property
    def needs(self) -> Needs:
        """Return the data that the fit needs: samples if residuals are evaluated row by row."""
        return self._least_squares().needs

    def settings_for(self, robot: Robot, wanted: EquationSettings) -> EquationSettings:
        """Return the settings unchanged, or raise `InputError` if the prior has other links than the robot."""
        build_prior(robot, self.prior, self.divergence)
        return wanted

    def fit(self, rows: Rows) -> Estimate:
        """Fit the parameters.

        One block cannot be held out, so `prior_weight` must be a number for it.

        Parameters
        ----------
        rows : Rows
            Rows to fit.

        Returns
        -------
        Estimate

        Raises
        ------
        InputError
            If the prior weight cannot be cross-validated, or the bounds contradict each other.
        """
        if len(rows.blocks) < 2 and self.prior_weight == "cross-validated" and self.prior is not None:
            raise InputError(
                "prior_weight cannot be cross-validated: the data have no blocks to hold out",
                hint=f"fit samples, or pass prior_weight={COMPARISON_PRIOR_WEIGHT:g}",
                code=Code.TOO_LITTLE_DATA,
                subject="prior_weight",
            )
        if self.weights == "joint":
            rows = rows.without_constant_torques()
        problem, weights, choice = self._choose_problem(rows)
        information = rows.information
        problem = problem.drop_kinds(choice.dropped_kinds)
        if self.weights == "joint":
            weights = problem.reweight(information, weights, choice.weight)
        x = problem.solve(information, weights, choice.weight)
        # The unconstrained fit with the same columns gives the covariance.
        zero = [problem.space.labels[k] for k in problem.zero]
        unconstrained = self._least_squares(tuple(name for name in zero if name in rows.regressor.names)).fit(rows)
        return _build_estimate(unconstrained, problem, information, problem.space.move_inside(x), weights, choice)

    def settled_for(self, rows: Rows) -> tuple[PhysicallyConsistent, Callable[[Sequence[Information]], list[Array]]]:
        """Return settings with the prior weight and dropped kinds selected for these rows, and a fit of parts of them.

        The function returns beta (p,) for each part of the rows, with the joint weights of all rows, or raises
        `ConicError`.
        """
        problem, weights, choice = self._choose_problem(rows)
        problem = problem.drop_kinds(choice.dropped_kinds)
        zero = tuple(problem.space.labels[k] for k in problem.zero)
        chosen = replace(self, prior_weight=choice.weight, kinds="all", dropped=zero)

        def fit_parts(parts: Sequence[Information]) -> list[Array]:
            solutions = solve_all([(problem, part, choice.weight) for part in parts], weights)
            found = [problem.space.matrix @ x for x in solutions if x is not None]
            if len(found) < len(parts):
                raise ConicError("the conic program of a part of the rows was not solved", subject="rows")
            return found

        return chosen, fit_parts

    def _choose_problem(self, rows: Rows) -> tuple[FitProblem, Array, PriorChoice]:
        """Return the fit problem, the initial joint weights, and the choice of the prior."""
        information, problem = rows.information, self._build_problem(rows.regressor)
        start = fit_weighted(LeastSquares(weights=self.weights), information, rows.constant_torques)
        weights = start.weights
        prior_weight = COMPARISON_PRIOR_WEIGHT if isinstance(self.prior_weight, str) else self.prior_weight
        if self.weights == "joint":
            weights = joint_weights(information, start.beta)
        if self.prior is not None:
            problem = problem.with_guesses(information, weights)
        problem = problem.relax_limits(information, weights, prior_weight)
        if self.weights == "joint":
            weights = problem.reweight(information, weights, prior_weight)
        return problem, weights, self._choose_prior(problem, rows.folds(), weights)

    def _least_squares(self, dropped: tuple[str, ...] = ()) -> LeastSquares:
        """Return the unconstrained estimator with the same settings."""
        return LeastSquares(weights=self.weights, covariance=self.covariance, dropped=dropped)

    def _build_problem(self, regressor: Regressor) -> FitProblem:
        space = space_of(regressor)
        droppable = space.drive_labels()
        labels_by_name = {name: [name] if name in droppable else space.drive_labels(name) for name in self.dropped}
        unknown = [name for name, labels in labels_by_name.items() if not labels]
        if unknown:
            raise InputError(
                f"a consistent fit cannot drop {', '.join(unknown)}; it can drop: {', '.join(droppable)}",
                hint="link parameters are never zero individually; the prior determines them",
                code=Code.UNKNOWN_NAME,
                subject=", ".join(unknown),
            )
        zero = tuple({space.labels.index(label): None for labels in labels_by_name.values() for label in labels})
        prior = build_prior(regressor.robot, self.prior, self.divergence)
        robot, floor = regressor.robot, MIN_PRIOR_FRACTION
        if not self.bounds.is_empty:  # they may contradict the prior
            return FitProblem(space, prior, self.bounds.rows(space), zero)
        reference = robot if isinstance(self.prior, str) else self.prior
        limits = plausible_limits(robot, reference).bounds().rows(space)
        return FitProblem(space, prior, (), zero, floor=floor, limits=limits)

    def _choose_prior(self, problem: FitProblem, folds: Sequence[Information], weights: Array) -> PriorChoice:
        weight = None if isinstance(self.prior_weight, str) else self.prior_weight
        if not problem.prior.is_known:
            weight = 0.0  # the smallest mass is a tie-break with its own weight
        if weight is not None and (len(folds) < 2 or self.kinds == "all"):
            return PriorChoice(weight, (), ())
        return choose_prior(problem, folds, weights, weight, kinds=self.kinds == "cross-validated")


def _build_estimate(
    unconstrained: Estimate,
    problem: FitProblem,
    information: Information,
    x: Array,
    weights: Array,
    choice: PriorChoice,
) -> Estimate:
    beta, prior = problem.space.matrix @ x, problem.prior
    prior_shares = problem.prior_fractions(information, weights, choice.weight, x) if prior.is_known else None
    rms = np.sqrt(information.residuals(beta) / information.counts)
    prior_links = tuple(
        name for name, phi in zip(unconstrained.robot.link_names, prior.links, strict=True) if phi is not None
    )
    return (
        unconstrained.with_values(
            beta=beta, physical=Physical(problem.space.labels, x, unconstrained.beta, prior_links, prior_shares)
        )
        .with_data(
            residuals=tuple(
                replace(residual, rms=float(r)) for residual, r in zip(unconstrained.data.residuals, rms, strict=True)
            ),
            joint_weights=weights,
            factor=None,
        )
        .with_provenance(
            status=_format_status(unconstrained, problem, information, beta, choice), method="physically consistent"
        )
        .with_notes(
            prior=prior.sentence,
            prior_weight=choice.weight,
            prior_notes=list(prior.notes),
            kinds_left_out=list(choice.dropped_kinds),
            tried=list(choice.tried),
        )
    )


def _format_status(
    unconstrained: Estimate, problem: FitProblem, information: Information, beta: Array, choice: PriorChoice
) -> str:
    torque = information.torques().sum()
    error, least = (100 * np.sqrt(information.residuals(b).sum() / torque) for b in (beta, unconstrained.beta))
    count = len(beta) - len(unconstrained.values.dropped)
    source = data_summary(information, unconstrained.settings)
    weight = f", weight {choice.weight:.2g}" if problem.prior.is_known else ""
    kinds = [KIND_NAMES[kind] for kind in choice.dropped_kinds]
    dropped = (
        [f"{' and '.join(kinds)} were dropped because they do not improve the prediction of held-out blocks"]
        if kinds
        else []
    )
    width = (
        [] if problem.compact else [f"links are wider than the known reach of the robot, {problem.space.reach:.2g} m"]
    )
    notes = "".join(f" Note: {note}." for note in (*dropped, *width, *problem.prior.notes))
    return (
        f"{count} physically consistent parameters from {source} leave {error:.3g} % of the torque "
        f"unexplained ({least:.3g} % without the constraint); {problem.prior.sentence}{weight}.{notes}"
    )


@dataclass(frozen=True, slots=True, eq=False)
class PriorChoice:
    """Weight of the prior, dropped kinds of parameters, and the errors (mean, standard error) of all candidates."""

    weight: float
    dropped_kinds: tuple[Kind, ...]
    tried: tuple[dict[str, Any], ...]


def choose_prior(
    problem: FitProblem, folds: Sequence[Information], weights: Array, weight: float | None, *, kinds: bool
) -> PriorChoice:
    """Select the weight of the prior, unless it is given, and with `kinds` the parameters to drop."""
    models: list[tuple[Kind, ...]] = _distinct_models(problem) if kinds else [()]
    tried: list[dict[str, Any]] = []
    dropped = models[0]
    if len(models) > 1:
        at = COMPARISON_PRIOR_WEIGHT if weight is None else weight
        dropped = models[
            _select_simplest(_compute_errors(problem, folds, weights, [(model, at) for model in models], tried))
        ]
    if weight is not None:
        return PriorChoice(weight, dropped, tuple(tried))
    rows = sum(sum(fold.counts) for fold in folds)
    candidates = [step / rows for step in PRIOR_STEPS]
    errors = _compute_errors(problem, folds, weights, [(dropped, candidate) for candidate in candidates], tried)
    return PriorChoice(candidates[_select_least_weight(errors)], dropped, tuple(tried))


def _select_least_weight(errors: Array) -> int:
    """Return the first of the weights, in rising order, whose errors (weights, folds) are not significantly larger."""
    best = errors[int(errors.mean(axis=1).argmin())]
    for k, row in enumerate(errors):
        if np.isfinite(row).all():
            more = np.log(np.maximum(row, TINY_ERROR) / np.maximum(best, TINY_ERROR))
            if not exceeds_zero(float(more.mean()), float(more.std(ddof=1) / np.sqrt(len(more))), len(more)):
                return k
    return int(errors.mean(axis=1).argmin())


def _distinct_models(problem: FitProblem) -> list[tuple[Kind, ...]]:
    """Return the sets of kinds that lead to different models."""
    models: dict[tuple[int, ...], tuple[Kind, ...]] = {}
    for kind in reversed(DROPPABLE_KINDS):
        models.setdefault(problem.drop_kinds(kind).zero, kind)
    return list(reversed(models.values()))


def _select_simplest(errors: Array) -> int:
    """Return the first candidate whose error is not significantly above the smallest, of errors (candidates, folds)."""
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
    candidates: Sequence[Candidate],
    tried: list[dict[str, Any]],
) -> Array:
    """Return errors (candidates, folds) on each fold of fits to the others, and record them in `tried`."""
    errors = _fold_errors(problem, folds, weights, candidates)
    tried += [
        {"without": list(without), "weight": weight, "error": float(row.mean()), "spread": _standard_error(row)}
        for (without, weight), row in zip(candidates, errors, strict=True)
    ]
    if not np.isfinite(errors).all(axis=1).any():
        raise ConicError(
            "no conic program was solved for any weight of the prior", hint="pass prior_weight", subject="prior_weight"
        )
    return errors


def _standard_error(errors: Array) -> float:
    """Return the standard error of the mean, or zero if an error is infinite."""
    return float(errors.std(ddof=1) / np.sqrt(len(errors))) if np.isfinite(errors).all() else 0.0


def _fold_errors(
    problem: FitProblem, folds: Sequence[Information], weights: Array, candidates: Sequence[Candidate]
) -> Array:
    """Return the weighted mean squared residual (candidates, folds); infinite if a fit of the candidate fails."""
    rests = [add_information([*folds[:held], *folds[held + 1 :]]) for held in range(len(folds))]
    fits = [(problem.drop_kinds(without), rest, weight) for without, weight in candidates for rest in rests]
    errors = np.full(len(fits), np.inf)
    for k, x in enumerate(solve_all(fits, weights)):
        fold = folds[k % len(folds)]
        if x is not None:
            errors[k] = float(weights @ fold.residuals(problem.space.matrix @ x)) / sum(fold.counts)
    table = errors.reshape(len(candidates), len(folds))
    return np.where(np.isfinite(table).all(axis=1, keepdims=True), table, np.inf)  # other weights may succeed
