"""What is done with an estimate: validation, payload, wrench, contact, fleets, comparison, step-by-step tests."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
