"""Standard parameters, and the combinations of them that determine the dynamics."""

from mindyn.foundation.lazy_names import import_lazily

__all__, __getattr__ = import_lazily(__name__, __file__)
