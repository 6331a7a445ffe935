"""Streaming regression: equations of logs, R factors for each joint, and identifiable directions."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
