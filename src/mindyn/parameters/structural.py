"""Structural base parameters: exact for any tree, from the kinematics alone, without sampling (see spans.py).

A parameter dropped too many makes torques wrong, one kept too many does not: so a link column goes only where the
residual of what replaces it is at the level of rounding. If a change d of a link's parameters is treated as unseen,
torques at its joint and the joints before change by at most |A d| times the size of the motion, A the link's rows of
conditions in scaled units; the residual |A_k - A_kept X_k| is therefore the error for each unit of parameter k. It is
allowed up to UNSEEN, times the sizes that the column is summed from. Near that threshold a parameter costs as much
whether kept or dropped: there is no cliff, and the count of nearly degenerate geometry is a matter of tolerance.

Links are then eliminated from the last to the first: rows_i = X_i totals_i stay in place, totals_i - E rows_i pass to
the parent. The error of X (rounding over deviation) lies in directions that joint i does not see, and the same numbers
are passed on, so it does no harm. Afterwards nothing is rounded but what rounding alone has left (`_tidy_entries`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindyn.algebra.inertia import phi_map
from mindyn.algebra.poses import Pose
from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.notation import DRIVE_PARAMETERS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters, round_coefficients
from mindyn.parameters.column_choice import MAX_FACTOR, choose_columns, combination, residuals
from mindyn.parameters.labels import parameter_labels
from mindyn.parameters.spans import JointConditions, ScaledMechanism, find_joint_conditions, scaled_mechanism
from mindyn.robots.robot import Robot

_PREFERRED_NAMES = ("Izz", "Ixx", "Ixy", "Ixz", "Iyz", "mcx", "mcy", "mcz", "Iyy", "m")
PREFERRED = tuple(LINK_PARAMETERS.index(name) for name in _PREFERRED_NAMES)
"""Standard parameters in the order in which they are kept: Gautier and Khalil's choice where z is the joint axis."""

UNSEEN_RESIDUAL: Final = 3e-14
"""Residual of a column, in scaled units and times the sizes it is summed from, below which it is unseen. Rounding on
exact trees reaches 3.4e-15 (1500 trees, chains of 40 joints)."""

NEARLY_DEGENERATE_SINGULAR_VALUE: Final = 1e-4
"""Smallest singular value of the kept columns below which a link is called nearly degenerate."""

MAX_HIDDEN_DRIVE_CHANGE: Final = 1e3
"""Link changes that a hidden drive may need; above, links and drives are chosen as one system."""

EPS: Final = float(np.finfo(float).eps)


def structural_base(
    robot: Robot, *, drives: bool = False, survivors: Sequence[int] | None = None, tolerance: float | None = None
) -> BaseParameters:
    """The structural base set of a robot's open tree; with drives, rotor inertias are regrouped too.

    It depends on joints, gears and gravity alone, not on what the links weigh.

    survivors  columns of the link parameters that stay in place, where the choice is not to be mindyn's own
    tolerance  parameters seen by less than this, in the robot's own units, are dropped; at rounding level if left out
    """
    if tolerance is not None and not UNSEEN_RESIDUAL <= tolerance < 1:
        raise InputError(
            f"tolerance must lie between {UNSEEN_RESIDUAL:g} (rounding, the default) and 1, got {tolerance!r}"
        )
    mechanism = scaled_mechanism(robot, drives=drives)
    seen = find_joint_conditions(robot, mechanism)
    system = _System(robot, mechanism, seen, tolerance or UNSEEN_RESIDUAL)
    kept = [system.kept_columns(i, _local_columns(survivors, i)) for i in range(robot.joint_count)]
    found = system.eliminate(kept)
    K = found.matrix * mechanism.units / mechanism.units[found.survivors][:, None]
    matrix, in_place = _append_drives(robot, K, found.survivors, drives=drives)
    labels = parameter_labels(robot, drives=drives)
    shown = round_coefficients(robot, matrix, drives=drives)
    names = tuple(
        labels[k] if (row != 0).sum() == 1 else f"{labels[k]}R" for k, row in zip(in_place, shown, strict=True)
    )
    notes = _note_near_degeneracy(robot, found.kept, seen) + _note_tolerance(tolerance, found.kept, seen)
    if drives and robot.extras:
        notes += ("extra torques stand by themselves; base_parameters also checks that no link can imitate them",)
    return BaseParameters(robot, "structural", drives, matrix, names, tuple(in_place), notes)


def _local_columns(survivors: Sequence[int] | None, link: int) -> list[int] | None:
    """The given columns of one link, as its own parameters 0 .. 9."""
    if survivors is None:
        return None
    first = PARAMETERS_PER_LINK * link
    return [k - first for k in survivors if first <= k < first + PARAMETERS_PER_LINK]


@dataclass(frozen=True, slots=True)
class _EliminationResult:
    """K over (phi, rotor inertias, offsets) in scaled units, the columns in place, and those of each link."""

    matrix: Array
    survivors: list[int]
    kept: list[list[int]]


@dataclass(frozen=True, slots=True)
class _System:
    """The conditions of all joints, and the elimination of what they do not see."""

    robot: Robot
    mechanism: ScaledMechanism
    seen: list[JointConditions]
    tolerance: float

    @property
    def drive_count(self) -> int:
        """Columns of drives: rotor inertias and offsets."""
        return 2 * len(self.mechanism.gears)

    def kept_columns(self, link: int, given: list[int] | None) -> list[int]:
        """Parameters of a link that stay: the given ones if they carry all others, or our own choice."""
        one = self.seen[link]
        floor = self.tolerance * one.nominal * one.size
        if given is None:
            return choose_columns(one.link, PREFERRED, floor)
        if (residuals(one.link, given) > floor).any():
            joint = self.robot.joints[link].name
            raise InputError(f"the {len(given)} survivors given for the link of joint {joint!r} leave some of it out")
        return sorted(given)

    def eliminate(self, kept: list[list[int]]) -> _EliminationResult:
        """Links from the last to the first: what a joint sees stays in place, the rest passes to the parent."""
        hidden, kept_drives, made = self._hidden_drives(kept)
        if any(np.abs(one).max(initial=0.0) > MAX_HIDDEN_DRIVE_CHANGE for one in made):
            return self._exchange_drives(kept, kept_drives)
        n, count = self.robot.joint_count, self.drive_count
        links = PARAMETERS_PER_LINK * n
        totals = [np.zeros((PARAMETERS_PER_LINK, links + count)) for _ in range(n)]
        rows: list[Array] = [np.zeros((0, links + count))] * n
        for i in reversed(range(n)):
            totals[i][:, PARAMETERS_PER_LINK * i : PARAMETERS_PER_LINK * (i + 1)] += np.eye(PARAMETERS_PER_LINK)
            rows[i] = self._regrouping_matrix(i, kept[i]) @ totals[i]
            rows[i][:, links:] += made[i]
            parent = self.robot.parents[i]
            if parent >= 0:
                unseen = totals[i].copy()
                unseen[kept[i]] -= rows[i]
                totals[parent] += self._to_parent(i) @ unseen
        drive_rows = np.zeros((len(kept_drives), links + count))
        drive_rows[:, links:] = (np.eye(count) - hidden)[kept_drives]
        survivors = self._survivors(kept, kept_drives)
        K = _tidy_entries(np.vstack([*rows, drive_rows]), 16 * EPS)
        K[:, survivors] = np.eye(len(survivors))  # exact by construction; this takes away the rounding
        return _EliminationResult(K, survivors, kept)

    def _survivors(self, kept: list[list[int]], kept_drives: list[int]) -> list[int]:
        links = PARAMETERS_PER_LINK * self.robot.joint_count
        in_links = [PARAMETERS_PER_LINK * i + k for i, columns in enumerate(kept) for k in columns]
        return in_links + [links + k for k in kept_drives]

    def _regrouping_matrix(self, link: int, kept: list[int]) -> Array:
        """X (kept, 10) with A_kept X = A: the identity at the columns kept."""
        one, rest = self.seen[link], [k for k in range(PARAMETERS_PER_LINK) if k not in kept]
        X = np.zeros((len(kept), PARAMETERS_PER_LINK))
        X[:, kept] = np.eye(len(kept))
        if kept and rest:
            sizes = np.linalg.norm(one.link[:, kept], axis=0)[:, None]
            X[:, rest] = _tidy_entries(
                combination(one.link, kept, one.link[:, rest]), np.minimum(64 * EPS * one.nominal[rest] / sizes, 1e-9)
            )
        return X

    def _to_parent(self, link: int) -> Array:
        """(10, 10): scaled parameters of a link to the frame of its parent link."""
        X = self.robot.joints[link].origin @ self.robot.joints[link].tip
        return phi_map(Pose(X.rotation, X.translation / self.mechanism.length))

    def _hidden_drives(self, kept: list[list[int]]) -> tuple[Array, list[int], list[Array]]:
        """Changes of rotor inertias and offsets that links make up for, the drives that stay, and what links make up.

        hidden  (2 drives, 2 drives): column k is such a change, 1 at k; zero for those that stay
        made    for each link, (kept, 2 drives): the changes of its parameters that make up for it
        """
        count = self.drive_count
        if not count:
            return np.zeros((0, 0)), [], [np.zeros((len(columns), 0)) for columns in kept]
        # What the links leave of the drives' columns.
        pairs = list(zip(self.seen, kept, strict=True))
        blind = np.vstack(
            [one.drives - one.link[:, columns] @ combination(one.link, columns, one.drives) for one, columns in pairs]
        )
        floor = np.full(count, self.tolerance * max(one.size for one in self.seen))
        stay = choose_columns(blind, tuple(reversed(range(count))), floor)
        gone = [k for k in range(count) if k not in stay]
        hidden = np.eye(count)
        hidden[:, stay] = 0.0
        if stay and gone:
            hidden[np.ix_(stay, gone)] = -_tidy_entries(combination(blind, stay, blind[:, gone]), 64 * EPS)
        made = [_tidy_entries(combination(one.link, columns, one.drives @ hidden), 64 * EPS) for one, columns in pairs]
        return hidden, stay, made

    def _exchange_drives(self, kept: list[list[int]], kept_drives: list[int]) -> _EliminationResult:
        """Links and drives as one system M = [diag(A_i) | D], where a drive would need huge link changes to hide.

        Weak link columns change places with drives. Null vectors N of M, each unseen at its joint and passed to its
        parent, give K = 1[now] - N[now] N[rest]^-1 1[rest].
        """
        n, links = self.robot.joint_count, PARAMETERS_PER_LINK * self.robot.joint_count
        M = np.zeros((sum(len(one.link) for one in self.seen), links + self.drive_count))
        top = 0
        for i, one in enumerate(self.seen):
            rows = slice(top, top + len(one.link))
            M[rows, PARAMETERS_PER_LINK * i : PARAMETERS_PER_LINK * (i + 1)], M[rows, links:] = one.link, one.drives
            top += len(one.link)
        now = self._survivors(kept, kept_drives)
        for _ in range(400):
            rest = [column for column in range(M.shape[1]) if column not in now]
            X = combination(M, now, M[:, rest])
            row, column = np.unravel_index(np.abs(X).argmax(), X.shape)
            if abs(X[row, column]) <= MAX_FACTOR:
                break
            now[int(row)] = rest[int(column)]
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
        columns = [[k - PARAMETERS_PER_LINK * i for k in now if k // PARAMETERS_PER_LINK == i] for i in range(n)]
        return _EliminationResult(K, now, columns)


def _tidy_entries(matrix: Array, noise: Array | float) -> Array:
    """Entries within `noise` of 0 and halves taken as those: what rounding alone has left."""
    near = np.round(matrix * 2) / 2
    return np.asarray(np.where(np.abs(matrix - near) <= noise, near + 0.0, matrix))


def _append_drives(robot: Robot, K: Array, survivors: list[int], *, drives: bool) -> tuple[Array, list[int]]:
    """K over all parameters: rotor and offset columns among the drive parameters, friction and extras by themselves."""
    if not drives:
        return K, survivors
    links, per_drive = PARAMETERS_PER_LINK * robot.joint_count, len(DRIVE_PARAMETERS)
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
    for joint, columns, one in zip(robot.joints, kept, seen, strict=True):
        if not columns:
            continue
        weakest = float(np.linalg.svd(one.link[:, columns], compute_uv=False)[-1])
        if weakest < NEARLY_DEGENERATE_SINGULAR_VALUE:
            notes.append(
                f"joint {joint.name!r} is nearly degenerate: some parameters show only through a deviation of "
                f"{weakest:.1e}; if it is a rounding of the file, load with snap=True and they vanish"
            )
    return tuple(notes)


def _note_tolerance(tolerance: float | None, kept: list[list[int]], seen: list[JointConditions]) -> tuple[str, ...]:
    """What a tolerance of the caller's own costs, in units of the robot."""
    if tolerance is None:
        return ()
    largest = max(float(residuals(one.link, columns).max()) for one, columns in zip(seen, kept, strict=True))
    return (
        f"dropped on request (tolerance {tolerance:g}): what was left out changes torques by up to {largest:.1e} m g L "
        "of a link's mass m and the robot's length L, at speeds near sqrt(g/L)",
    )
