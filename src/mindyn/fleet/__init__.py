"""Many robots of one type and all their logs: estimates of each, and who differs from the type or drifts."""

from mindyn.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
