"""Structural base parameters: exact for any tree, from the kinematics alone, without sampling (see spans.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mindyn.algebra.inertia import phi_map
from mindyn.algebra.values import Array
from mindyn.errors import InputError
from mindyn.notation import DRIVE_PARAMETERS, LINK_PARAMETERS, PARAMETERS_PER_LINK
from mindyn.parameters.base import BaseParameters
from mindyn.parameters.labels import parameter_labels
from mindyn.parameters.reading import cleaned
from mindyn.parameters.spans import RANK, DriveShares, Seen, orthonormal, seen_by_joints
from mindyn.robots.drive_matrices import friction_matrix, gear_matrix
from mindyn.robots.robot import Robot

_KEPT_FIRST = ("Izz", "Ixx", "Ixy", "Ixz", "Iyz", "mcx", "mcy", "mcz", "Iyy", "m")
PREFERRED = tuple(LINK_PARAMETERS.index(name) for name in _KEPT_FIRST)
"""Standard parameters in the order in which they are kept: Gautier and Khalil's choice where z is the joint axis."""


def structural_base(robot: Robot, *, drives: bool = False, survivors: Sequence[int] | None = None) -> BaseParameters:
    """The structural base set of a robot's open tree; with drives, rotor inertias are regrouped too.

    survivors  columns of the link parameters that stay in place, where the choice is not to be mindyn's own
    """
    none = np.zeros((0, robot.joint_count))
    shares = DriveShares(gear_matrix(robot), friction_matrix(robot)) if drives else DriveShares(none, none)
    seen, maps = seen_by_joints(robot, shares)
    conditions = [Seen(one.link @ T, one.drives, one.near) for one, T in zip(seen, maps, strict=True)]
    order = PREFERRED if survivors is None else None
    kept_columns = [independent_columns(one.link, order or _own(survivors, i)) for i, one in enumerate(conditions)]
    elimination = _Elimination(robot, conditions, 2 * len(shares.gears), kept_columns)
    rows, in_place = elimination.link_rows()
    drive_rows, kept_drives = elimination.drive_rows()
    matrix, kept = _with_drives(robot, np.vstack([*rows, drive_rows]), in_place, kept_drives, drives=drives)
    matrix = cleaned(matrix)
    matrix[:, kept] = np.eye(len(kept))  # exact by construction; this takes away the rounding
    labels = parameter_labels(robot, drives=drives)
    names = tuple(labels[k] if (row != 0).sum() == 1 else f"{labels[k]}R" for k, row in zip(kept, matrix, strict=True))
    notes = _near_notes(robot, conditions)
    if drives and robot.extras:
        notes += ("extra torques stand by themselves; base_parameters also checks that no link can imitate them",)
    return BaseParameters(robot, "structural", drives, matrix, names, tuple(kept), notes)


def _own(survivors: Sequence[int] | None, link: int) -> tuple[int, ...]:
    """The given columns of one link, as its own parameters 0 .. 9."""
    first = PARAMETERS_PER_LINK * link
    return tuple(k - first for k in survivors or () if first <= k < first + PARAMETERS_PER_LINK)


def independent_columns(rows: Array, order: tuple[int, ...]) -> list[int]:
    """Columns, in the given order of preference, that are a well-conditioned basis of the column space."""
    kept: list[int] = []
    rank = orthonormal(rows).shape[1]
    sizes = np.linalg.norm(rows, axis=0)
    for threshold in (0.1, 1e-3, 1e-6, 10 * RANK):
        for column in order:
            if len(kept) == rank:
                return sorted(kept)
            if column in kept or sizes[column] <= 1e-12:
                continue
            basis = np.linalg.qr(rows[:, kept])[0]
            rest = rows[:, column] - basis @ (basis.T @ rows[:, column])
            if np.linalg.norm(rest) > threshold * sizes[column]:
                kept.append(column)
    if len(kept) < rank:
        raise InputError(f"the {len(order)} survivors given for a link leave {rank - len(kept)} of its parameters out")
    return sorted(kept)


@dataclass
class _Elimination:
    """Links from the last to the first: what a joint sees stays in place, the rest passes to the parent."""

    robot: Robot
    conditions: list[Seen]
    drive_count: int
    kept: list[list[int]]
    inverses: list[Array] = field(init=False)
    hidden: Array = field(init=False)

    def __post_init__(self) -> None:
        self.inverses = [
            np.asarray(np.linalg.pinv(one.link[:, kept]), dtype=np.float64)
            if kept
            else np.zeros((0, one.link.shape[0]))
            for one, kept in zip(self.conditions, self.kept, strict=True)
        ]
        self.hidden = self._hidden_drives()

    def link_rows(self) -> tuple[list[Array], list[int]]:
        """Rows of K over (phi, rotor inertias, offsets), link by link, and the columns that stay in place."""
        n = self.robot.joint_count
        width = PARAMETERS_PER_LINK * n + self.drive_count
        totals = [np.zeros((PARAMETERS_PER_LINK, width)) for _ in range(n)]
        rows: list[Array] = [np.zeros((0, width))] * n
        for i in reversed(range(n)):
            own = slice(PARAMETERS_PER_LINK * i, PARAMETERS_PER_LINK * (i + 1))
            totals[i][:, own] += np.eye(PARAMETERS_PER_LINK)
            made_up = np.zeros_like(totals[i])
            made_up[self.kept[i], PARAMETERS_PER_LINK * n :] = (
                self.inverses[i] @ self.conditions[i].drives @ self.hidden
            )
            totals[i] += made_up
            rows[i] = cleaned(self.inverses[i] @ self.conditions[i].link) @ totals[i]
            parent = self.robot.parents[i]
            if parent >= 0:
                joint = self.robot.joints[i]
                unseen = totals[i] - made_up
                unseen[self.kept[i]] -= rows[i]
                totals[parent] += phi_map(joint.origin @ joint.tip) @ unseen
        return rows, [PARAMETERS_PER_LINK * i + k for i, kept in enumerate(self.kept) for k in kept]

    def _hidden_drives(self) -> Array:
        """(2 drives, 2 drives): column k is a change of rotor inertias and offsets, 1 at k, that links make up for."""
        blind = [
            one.drives - one.link[:, kept] @ inverse @ one.drives
            for one, kept, inverse in zip(self.conditions, self.kept, self.inverses, strict=True)
        ]
        rows = np.vstack(blind)
        # What is left of a column after the links took their part is rounding where it is small beside the column.
        sizes = np.linalg.norm(np.vstack([one.drives for one in self.conditions]), axis=0)
        rows = np.where(np.abs(rows) > RANK * sizes, rows / np.maximum(sizes, 1e-300), 0.0)
        seen = independent_columns(rows, tuple(reversed(range(self.drive_count)))) if self.drive_count else []
        hidden = np.eye(self.drive_count)
        hidden[:, seen] = 0.0
        gone = [k for k in range(self.drive_count) if k not in seen]
        if seen and gone:
            ratio = sizes[gone] / sizes[seen][:, None]
            hidden[np.ix_(seen, gone)] = -np.linalg.pinv(rows[:, seen]) @ rows[:, gone] * ratio
        return hidden

    def drive_rows(self) -> tuple[Array, list[int]]:
        """Rows of K for the rotor inertias and offsets that stay, and their numbers."""
        kept = [k for k in range(self.drive_count) if self.hidden[k, k] == 0]
        rows = np.zeros((len(kept), PARAMETERS_PER_LINK * self.robot.joint_count + self.drive_count))
        rows[:, PARAMETERS_PER_LINK * self.robot.joint_count :] = (np.eye(self.drive_count) - self.hidden)[kept]
        return rows, kept


def _with_drives(
    robot: Robot, rows: Array, survivors: list[int], kept_drives: list[int], *, drives: bool
) -> tuple[Array, list[int]]:
    """K over all parameters: rotor and offset columns among the drive parameters, friction and extras by themselves."""
    if not drives:
        return rows, survivors
    links, per_drive = PARAMETERS_PER_LINK * robot.joint_count, len(DRIVE_PARAMETERS)
    starts = range(links, links + per_drive * len(robot.drives), per_drive)
    regrouped = [s + DRIVE_PARAMETERS.index(name) for name in ("rotor_inertia", "offset") for s in starts]
    matrix = np.zeros((len(rows), links + per_drive * len(robot.drives) + len(robot.extras)))
    matrix[:, :links] = rows[:, :links]
    matrix[:, regrouped] = rows[:, links:]
    friction = [column for column in range(links, matrix.shape[1]) if column not in regrouped]
    kept = [*survivors, *(regrouped[k] for k in kept_drives), *friction]
    return np.vstack([matrix, np.eye(matrix.shape[1])[friction]]), kept


def _near_notes(robot: Robot, conditions: list[Seen]) -> tuple[str, ...]:
    notes = []
    for joint, one in zip(robot.joints, conditions, strict=True):
        if one.near:
            notes.append(
                f"joint {joint.name!r} is nearly degenerate: some parameters show only through a deviation of "
                f"{min(one.near):.1e}; if it is a rounding of the file, load with snap=True and they vanish"
            )
    return tuple(notes)
