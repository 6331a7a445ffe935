"""The one verb: settings chosen inside the training rows, equations, fit, judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.identification.choosing import Choice
    from mindyn.identification.log_drafts import draft_log

__all__ = [
    "Choice",
    "draft_log",
]

__getattr__ = named_lazily(
    __name__,
    {
        "choosing": ("Choice",),
        "log_drafts": ("draft_log",),
    },
)
