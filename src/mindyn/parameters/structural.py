"""Structural base parameters: exact for any tree, from the kinematics alone, without sampling (see spans.py).

If one parameter too many is dropped, torques are wrong; if one too many is kept, torques stay right. A link column is
therefore dropped only if the residual of its replacement is at the level of rounding. Suppose that a change d of a
link's parameters is treated as having no effect. Torques at its joint and at the previous joints then change by at most
|A d| times the size of the motion, where A are the link's rows of conditions in scaled units. The residual |A_k -
A_kept X_k| is therefore the error for each unit of parameter k. The residual may be up to UNSEEN_RESIDUAL, times the
scale of the column's terms. Near that threshold, keeping and dropping a parameter cause equal errors, so that torques
change continuously, and the count for nearly degenerate geometry depends on the tolerance.

Links are then eliminated from the last to the first: rows_i = X_i totals_i stay at link i, and totals_i - E rows_i move
to the parent. The error of X (rounding divided by deviation) has directions that have no effect at joint i, and the
parent gets the same numbers, so that the error has no effect on torques. At the end, only rounding errors are removed
(`tidy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.foundation.algebra.inertia import phi_map
from mindyn.foundation.algebra.poses import Pose
from mindyn.foundation.algebra.requirements import require_number
from mindyn.foundation.algebra.rotations import tidy
from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.notation import DRIVE_PARAMETERS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.base_parameters import BaseParameters, parameter_labels, round_coefficients
from mindyn.parameters.column_choice import choose_columns, combination, exchange_columns, residuals
from mindyn.parameters.spans import JointConditions, ScaledMechanism, find_joint_conditions, scaled_mechanism
from mindyn.robots.robot import Robot

_PREFERRED_NAMES = ("Izz", "Ixx", "Ixy", "Ixz", "Iyz", "mcx", "mcy", "mcz", "Iyy", "m")
PREFERRED = tuple(LINK_PARAMETERS.index(name) for name in _PREFERRED_NAMES)
"""Standard parameters in the order in which they are kept: Gautier and Khalil's choice if z is the joint axis."""

UNSEEN_RESIDUAL: Final = 3e-14
"""Residual of a column, in scaled units and times the scale of its terms, below which it has no effect. Rounding on
exact trees reaches 3.4e-15 (1500 trees, chains of 40 joints).
"""

NEARLY_DEGENERATE_SINGULAR_VALUE: Final = 1e-4
"""Smallest singular value of the kept columns below which a link is nearly degenerate."""

MAX_HIDDEN_DRIVE_CHANGE: Final = 1e3
"""Largest link changes that may compensate a drive; above, links and drives are chosen as one system."""

EPS: Final = float(np.finfo(float).eps)


def structural_base(
    robot: Robot, *, with_drives: bool = False, survivors: Sequence[int] | None = None, tolerance: float | None = None
) -> BaseParameters:
    """Return the structural base set of a robot's open tree; with `with_drives`, rotor inertias are regrouped too.

    It depends on joints, gears and gravity only, not on link parameters.

    Parameters
    ----------
    robot : Robot
        The robot.
    with_drives : bool
        Include drive parameters.
    survivors : sequence of int, optional
        Columns of the link parameters that stay in place, instead of the automatic choice.
    tolerance : float, optional
        Parameters with a smaller effect, in the robot's own units, are dropped; by default those at the rounding level.
    """
    if tolerance is not None:
        require_number(tolerance, "tolerance", f"[{UNSEEN_RESIDUAL:g}, 1)", "the lower end is rounding, the default")
    mechanism = scaled_mechanism(robot, with_drives=with_drives)
    seen = find_joint_conditions(robot, mechanism)
    system = _System(robot, mechanism, seen, tolerance or UNSEEN_RESIDUAL)
    kept = [system.kept_columns(i, _local_columns(survivors, i)) for i in range(len(robot.joints))]
    K, survivors_in_place, kept = system.eliminate(kept)
    K = K * mechanism.units / mechanism.units[survivors_in_place][:, None]
    matrix, in_place = _append_drives(robot, K, survivors_in_place, with_drives=with_drives)
    labels = parameter_labels(robot, with_drives=with_drives)
    shown = round_coefficients(robot, matrix, with_drives=with_drives)
    names = tuple(
        labels[k] if (row != 0).sum() == 1 else f"{labels[k]}R" for k, row in zip(in_place, shown, strict=True)
    )
    notes = _note_near_degeneracy(robot, kept, seen) + _note_tolerance(tolerance, kept, seen)
    if with_drives and robot.extras:
        notes += ("extra torques are separate parameters; base_parameters also checks that no link can imitate them",)
    return BaseParameters(robot, "structural", with_drives, matrix, names, tuple(in_place), notes)


def _local_columns(survivors: Sequence[int] | None, link: int) -> list[int] | None:
    """Return the numbers 0 .. 9 of the given columns that belong to a link."""
    if survivors is None:
        return None
    first = PARAMETERS_PER_LINK * link
    return [k - first for k in survivors if first <= k < first + PARAMETERS_PER_LINK]


Elimination = tuple[Array, list[int], list[list[int]]]
"""K over (phi, rotor inertias, offsets) in scaled units, the columns in place, and those of each link."""


@dataclass(frozen=True, slots=True)
class _System:
    """The conditions of all joints, and the elimination of parameters without effect."""

    robot: Robot
    mechanism: ScaledMechanism
    seen: list[JointConditions]
    tolerance: float

    @property
    def drive_count(self) -> int:
        """Number of drive columns: rotor inertias and offsets."""
        return 2 * len(self.mechanism.gears)

    def kept_columns(self, link: int, given: list[int] | None) -> list[int]:
        """Return the parameters of a link that stay: the given ones if all others depend on them, else the automatic
        choice.
        """
        conditions = self.seen[link]
        floor = self.tolerance * conditions.nominal * conditions.size
        if given is None:
            return choose_columns(conditions.link, PREFERRED, floor)
        if (residuals(conditions.link, given) > floor).any():
            joint = self.robot.joints[link].name
            raise InputError(
                f"the {len(given)} survivors given for the link of joint {joint!r} do not determine all its parameters",
                code=Code.NOT_IDENTIFIABLE,
                subject=joint,
            )
        return sorted(given)

    def eliminate(self, kept: list[list[int]]) -> Elimination:
        """Process links from the last to the first: keep what has an effect at a joint, and move the rest to the
        parent.
        """
        hidden, kept_drives, compensation = self._hidden_drives(kept)
        if any(np.abs(change).max(initial=0.0) > MAX_HIDDEN_DRIVE_CHANGE for change in compensation):
            return self._exchange_drives(kept, kept_drives)
        n, count = len(self.robot.joints), self.drive_count
        links = PARAMETERS_PER_LINK * n
        totals = [np.zeros((PARAMETERS_PER_LINK, links + count)) for _ in range(n)]
        rows: list[Array] = [np.zeros((0, links + count))] * n
        for i in reversed(range(n)):
            totals[i][:, PARAMETERS_PER_LINK * i : PARAMETERS_PER_LINK * (i + 1)] += np.eye(PARAMETERS_PER_LINK)
            rows[i] = self._regrouping_matrix(i, kept[i]) @ totals[i]
            rows[i][:, links:] += compensation[i]
            parent = self.robot.parents[i]
            if parent >= 0:
                unseen = totals[i].copy()
                unseen[kept[i]] -= rows[i]
                totals[parent] += self._to_parent(i) @ unseen
        drive_rows = np.zeros((len(kept_drives), links + count))
        drive_rows[:, links:] = (np.eye(count) - hidden)[kept_drives]
        survivors = self._survivors(kept, kept_drives)
        K = tidy(np.vstack([*rows, drive_rows]), 16 * EPS)
        K[:, survivors] = np.eye(len(survivors))  # exact by construction; this removes rounding
        return K, survivors, kept

    def _survivors(self, kept: list[list[int]], kept_drives: list[int]) -> list[int]:
        links = PARAMETERS_PER_LINK * len(self.robot.joints)
        in_links = [PARAMETERS_PER_LINK * i + k for i, columns in enumerate(kept) for k in columns]
        return in_links + [links + k for k in kept_drives]

    def _regrouping_matrix(self, link: int, kept: list[int]) -> Array:
        """Return X (kept, 10) with A_kept X = A: the identity at the kept columns."""
        conditions, rest = self.seen[link], [k for k in range(PARAMETERS_PER_LINK) if k not in kept]
        X = np.zeros((len(kept), PARAMETERS_PER_LINK))
        X[:, kept] = np.eye(len(kept))
        if kept and rest:
            sizes = np.linalg.norm(conditions.link[:, kept], axis=0)[:, None]
            X[:, rest] = tidy(
                combination(conditions.link, kept, conditions.link[:, rest]),
                np.minimum(64 * EPS * conditions.nominal[rest] / sizes, 1e-9),
            )
        return X

    def _to_parent(self, link: int) -> Array:
        """Return (10, 10): the map from scaled parameters of a link to the frame of its parent link."""
        X = self.robot.joints[link].origin @ self.robot.joints[link].tip
        return phi_map(Pose(X.rotation, X.translation / self.mechanism.length))

    def _hidden_drives(self, kept: list[list[int]]) -> tuple[Array, list[int], list[Array]]:
        """Find changes of rotor inertias and offsets that links can compensate, the drives that stay, and the
        compensation.

        hidden  (2 drives, 2 drives): column k is such a change, with 1 at k; columns of drives that stay are zero
        made    for each link, (kept, 2 drives): the changes of its parameters that compensate it
        """
        count = self.drive_count
        if not count:
            return np.zeros((0, 0)), [], [np.zeros((len(columns), 0)) for columns in kept]
        # The residual of the drives' columns after the links.
        pairs = list(zip(self.seen, kept, strict=True))
        blind = np.vstack(
            [
                conditions.drives
                - conditions.link[:, columns] @ combination(conditions.link, columns, conditions.drives)
                for conditions, columns in pairs
            ]
        )
        floor = np.full(count, self.tolerance * max(conditions.size for conditions in self.seen))
        stay = choose_columns(blind, tuple(reversed(range(count))), floor)
        gone = [k for k in range(count) if k not in stay]
        hidden = np.eye(count)
        hidden[:, stay] = 0.0
        if stay and gone:
            hidden[np.ix_(stay, gone)] = -tidy(combination(blind, stay, blind[:, gone]), 64 * EPS)
        compensation = [
            tidy(combination(conditions.link, columns, conditions.drives @ hidden), 64 * EPS)
            for conditions, columns in pairs
        ]
        return hidden, stay, compensation

    def _exchange_drives(self, kept: list[list[int]], kept_drives: list[int]) -> Elimination:
        """Solve links and drives as one system M = [diag(A_i) | D], if links could compensate a drive only by huge
        changes.

        Weak link columns change places with drives. Null vectors N of M, each without effect at its joint and passed to
        its parent, give K = 1[now] - N[now] N[rest]^-1 1[rest].
        """
        from scipy.linalg import block_diag

        in_links = block_diag(*(conditions.link for conditions in self.seen))
        M = np.hstack([in_links, np.vstack([conditions.drives for conditions in self.seen])])
        now = self._survivors(kept, kept_drives)
        rest, X = exchange_columns(M, now)
        order = np.argsort(now)
        now, X = [now[k] for k in order], X[order]
        N = np.zeros((M.shape[1], len(rest)))
        N[rest], N[now] = np.eye(len(rest)), -X
        moved = N.copy()
        for i, parent in enumerate(self.robot.parents):
            if parent >= 0:
                there = slice(PARAMETERS_PER_LINK * parent, PARAMETERS_PER_LINK * (parent + 1))
                moved[there] -= self._to_parent(i) @ N[PARAMETERS_PER_LINK * i : PARAMETERS_PER_LINK * (i + 1)]
        K = np.eye(M.shape[1])[now]
        K[:, rest] = -np.linalg.solve(moved[rest].T, moved[now].T).T
        n = len(self.robot.joints)
        columns = [[k - PARAMETERS_PER_LINK * i for k in now if k // PARAMETERS_PER_LINK == i] for i in range(n)]
        return K, now, columns


def _append_drives(robot: Robot, K: Array, survivors: list[int], *, with_drives: bool) -> tuple[Array, list[int]]:
    """Return K over all parameters: columns of rotors and offsets are inserted, and friction and extra torques have
    rows of their own.
    """
    if not with_drives:
        return K, survivors
    links, per_drive = PARAMETERS_PER_LINK * len(robot.joints), len(DRIVE_PARAMETERS)
    starts = range(links, links + per_drive * len(robot.drives), per_drive)
    regrouped = [s + DRIVE_PARAMETERS.index(name) for name in ("rotor_inertia", "offset") for s in starts]
    columns = [*range(links), *regrouped]
    matrix = np.zeros((len(K), links + per_drive * len(robot.drives) + len(robot.extras)))
    matrix[:, columns] = K
    friction = [column for column in range(links, matrix.shape[1]) if column not in regrouped]
    kept = [*(columns[k] for k in survivors), *friction]
    return np.vstack([matrix, np.eye(matrix.shape[1])[friction]]), kept


def _note_near_degeneracy(robot: Robot, kept: list[list[int]], seen: list[JointConditions]) -> tuple[str, ...]:
    notes = []
    for joint, columns, conditions in zip(robot.joints, kept, seen, strict=True):
        if not columns:
            continue
        weakest = float(np.linalg.svd(conditions.link[:, columns], compute_uv=False)[-1])
        if weakest < NEARLY_DEGENERATE_SINGULAR_VALUE:
            notes.append(
                f"joint {joint.name!r} is nearly degenerate: some parameters act only through a deviation of "
                f"{weakest:.1e}; if the file is rounded, load with snap=True to remove them"
            )
    return tuple(notes)


def _note_tolerance(tolerance: float | None, kept: list[list[int]], seen: list[JointConditions]) -> tuple[str, ...]:
    """Return a note on the effect of a tolerance given by the caller, in units of the robot."""
    if tolerance is None:
        return ()
    largest = max(
        float(residuals(conditions.link, columns).max()) for conditions, columns in zip(seen, kept, strict=True)
    )
    return (
        f"parameters dropped by tolerance {tolerance:g} change torques by up to {largest:.1e} m g L, for the mass "
        "m of a link and the length L of the robot, at speeds near sqrt(g/L)",
    )
