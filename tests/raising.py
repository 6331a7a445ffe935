"""`raises`: expect an error by its type, code and subject, never by its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mindyn.foundation.errors import Code, MindynError


@contextmanager
def raises(
    kind: type[MindynError] | tuple[type[MindynError], ...], code: Code | tuple[Code, ...], subject: str | None = None
) -> Iterator[pytest.ExceptionInfo[MindynError]]:
    """Expect an error of that type and code, or one of those codes, about that subject; None leaves it open."""
    with pytest.raises(kind) as raised:
        yield raised
    codes = code if isinstance(code, tuple) else (code,)
    assert raised.value.code in codes, f"{raised.value.code!r}, not {code!r}: {raised.value}"
    if subject is not None:
        assert raised.value.subject == subject, f"{raised.value.subject!r}, not {subject!r}: {raised.value}"
