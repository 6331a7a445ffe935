"""`PhysicallyConsistent`: the fit with physical links, positive rotor inertia and dissipative friction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, require_choice
from mindyn.identification.estimators.estimate import Estimate
from mindyn.identification.estimators.estimate_records import Physical
from mindyn.identification.estimators.estimator import Estimator, Needs
from mindyn.identification.estimators.fit_summary import data_summary
from mindyn.identification.estimators.least_squares import LeastSquares, fit_weighted
from mindyn.identification.feasibility.conditions.default_limits import plausible_limits
from mindyn.identification.feasibility.conditions.physical_space import space_of
from mindyn.identification.feasibility.conditions.priors import Divergence, build_prior, require_valid_prior
from mindyn.identification.feasibility.conditions.user_bounds import Bounds
from mindyn.identification.feasibility.fits.constrained_fit import MIN_PRIOR_FRACTION, FitProblem, solve_all
from mindyn.identification.feasibility.fits.prior_and_drive_choice import (
    COMPARISON_PRIOR_WEIGHT,
    PriorChoice,
    choose_prior,
)
from mindyn.identification.feasibility.optimisation.conic_program import ConicError
from mindyn.parameters.parameter import Kind
from mindyn.regression.information import Information, joint_weights
from mindyn.regression.regressor import Regressor
from mindyn.regression.rows import Rows
from mindyn.regression.settings import EquationSettings
from mindyn.robots.robot import Robot

NO_BOUNDS: Final = Bounds()
KIND_NAMES: Final[Mapping[Kind, str]] = {"rotor": "rotor inertias", "friction": "friction shapes"}


@dataclass(frozen=True, slots=True)
class PhysicallyConsistent(Estimator):
    """Estimator for physically consistent parameters: constrained least squares with a prior for uninformative data.

    Only parameters of drives, friction and extra torques can be dropped: link parameters are never zero individually.

    Parameters
    ----------
    prior : Robot, "robot" or None
        "robot": the inertial parameters of the robot, unless they are placeholders. Links without parameters are balls
        of similar mass as far as the data do not determine them. A `Robot` with the same links: its CAD or URDF values.
        None: smallest total mass.
    prior_weight : float or "cross-validated"
        Weight of the prior relative to half the mean squared residual in units of its variance. "cross-validated": the
        smallest weight (at least that of one row) with which held-out blocks are not predicted significantly worse than
        with the best weight. This needs more than one block.
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
        Parameters that are zero, by name or by kind. "offset" means all torque offsets; a model for a simulator without
        offsets should be fitted without them.

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
        """Fit the parameters to the rows.

        If there is only one block, it cannot be held out, and `prior_weight` must be a number.

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
        """Return settings with the prior weight and the dropped kinds selected for these rows, and a function that fits
        parts of the rows.

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
    prior, dropped = problem.prior, np.isin(unconstrained.names, unconstrained.values.dropped)
    beta = np.where(dropped, 0.0, problem.space.matrix @ x)  # base sets of closed loops regroup with rounding errors
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
