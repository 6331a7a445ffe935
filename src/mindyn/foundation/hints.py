"""Commands that hints and next steps propose, and commands that install a missing package."""

from __future__ import annotations

import shlex
from typing import Final

PUBLISHED: Final = False
"""Whether `pip install mindyn` works: decides what hints and documentation say."""


class Command(tuple[str, ...]):
    """A command of the program: its words; words in capitals (ROBOT, LOG) stand for what the user knows.

    >>> print(Command("log", "run 1.csv", "ROBOT"))
    mindyn log 'run 1.csv' ROBOT
    """

    __slots__ = ()

    def __new__(cls, *words: object) -> Command:
        """Return the command with these words as text."""
        return super().__new__(cls, map(str, words))

    def __getnewargs__(self) -> tuple[str, ...]:
        """Return the words, for pickle."""
        return tuple(self)

    def fill(self, **known: object) -> Command:
        """Return the command with its capitalised placeholders replaced by the values that are known."""
        return Command(*(known.get(word, word) for word in self))

    def __str__(self) -> str:
        return shlex.join(("mindyn", *self))


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra."""
    if PUBLISHED:
        return f"pip install 'mindyn[{extra}]'"
    from importlib import metadata  # a fortieth of a second, which only a hint needs

    try:
        required = metadata.requires("mindyn") or []
    except metadata.PackageNotFoundError:  # used from a source folder without installation
        required = []
    packages = [line.partition(";")[0].strip() for line in required if f"extra == '{extra}'" in line.replace('"', "'")]
    return (
        f"pip install {shlex.join(packages)}" if packages else f"pip install '.[{extra}]' in the folder of the source"
    )
