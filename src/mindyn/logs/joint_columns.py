"""`order_columns`: return the columns of a table or dictionary in the order of the joints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.errors import Code, InputError, list_names


class DataFrame(Protocol):
    """Table with named columns, such as those of pandas and polars."""

    @property
    def columns(self) -> Iterable[Any]:
        """Names of the columns."""

    def __getitem__(self, name: Any, /) -> Any: ...

    def to_numpy(self) -> Any:
        """Return all columns as an array."""


JointColumns = ArrayLike | DataFrame | Mapping[str, ArrayLike]
"""Values of all joints: an array of shape (N, n), a table, or arrays by joint name."""


def is_table(values: object) -> bool:
    """Return whether a value is a table with named columns."""
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def order_columns(values: JointColumns | None, joint_names: Sequence[str], key: str) -> ArrayLike | None:
    """Return the columns of a table or dictionary as an array in the order of the joints; return arrays unchanged.

    key  name of the argument, for messages
    """
    if not isinstance(values, Mapping) and not is_table(values):
        return cast("ArrayLike | None", values)
    named = values if isinstance(values, Mapping) else cast("DataFrame", values)
    names = list(named) if isinstance(named, Mapping) else list(named.columns)
    missing = [name for name in joint_names if name not in names]
    if not isinstance(named, Mapping) and len(missing) == len(joint_names) == len(names):
        return np.asarray(named.to_numpy())  # the columns have other names, such as those of a file
    if missing:
        raise InputError(
            f"{key} has no column for {list_names(missing)}; its columns are: {list_names(map(str, names))}",
            hint=f"name the columns by joint, or select one for each joint, in this order: {list_names(joint_names)}",
            code=Code.UNKNOWN_NAME,
            subject=missing[0],
        )
    columns = [np.asarray(named[name]) for name in joint_names]
    shapes = {column.shape for column in columns}
    if len(shapes) > 1 or columns[0].ndim != 1:
        raise InputError(
            f"the columns of {key} must be vectors of one length, got shapes {sorted(map(str, shapes))}",
            code=Code.WRONG_SHAPE,
            subject=key,
        )
    return np.column_stack(columns)
