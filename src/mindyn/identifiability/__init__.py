"""Which parameters can be told apart: every base set by name, the numeric methods, reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.identifiability.design_questions import added_body, added_point_mass, place_point_mass
    from mindyn.identifiability.essential_space import constraint_matrix
    from mindyn.identifiability.reduction import reduce_model

__all__ = [  # noqa: RUF022 - in the order of the work
    "reduce_model",
    "constraint_matrix",
    "added_body",
    "added_point_mass",
    "place_point_mass",
]

__getattr__ = named_lazily(
    __name__,
    {
        "reduction": ("reduce_model",),
        "essential_space": ("constraint_matrix",),
        "design_questions": ("added_body", "added_point_mass", "place_point_mass"),
    },
)
