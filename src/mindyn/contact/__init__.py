"""Contact detection and hand guiding with an identified model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mindyn.lazy_names import named_lazily

if TYPE_CHECKING:
    from mindyn.contact.detection import (
        Contact,
        ContactDetector,
        ContactThresholds,
        contact_thresholds,
        contact_trace,
        contacts,
    )
    from mindyn.contact.guiding import HandGuide, HandGuiding, hand_guiding

__all__ = [  # noqa: RUF022 - in the order of the work
    "contact_thresholds",
    "ContactThresholds",
    "contact_trace",
    "contacts",
    "Contact",
    "ContactDetector",
    "hand_guiding",
    "HandGuiding",
    "HandGuide",
]

__getattr__ = named_lazily(
    __name__,
    {
        "detection": (
            "contact_thresholds",
            "ContactThresholds",
            "contact_trace",
            "contacts",
            "Contact",
            "ContactDetector",
        ),
        "guiding": ("hand_guiding", "HandGuiding", "HandGuide"),
    },
)
