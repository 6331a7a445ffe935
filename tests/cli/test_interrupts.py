"""A Ctrl-C that a library swallows is raised again; a handled one is not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from mindyn.foundation.interrupts import RERAISE_DELAY_S, acknowledge_interrupt, reraise_interrupts

SWALLOWED = """
import signal, time
from mindyn.foundation.interrupts import reraise_interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
with reraise_interrupts():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        pass  # as a library does that clears errors
    try:
        time.sleep(600)  # ended by it, not waited for
        print("lost")
    except KeyboardInterrupt:
        time.sleep(0.8)  # nothing disturbs what tidies up
        print("heard once more")
"""


def test_a_swallowed_interrupt_is_raised_again_but_not_during_cleanup():
    ran = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("heard once more\n", "")


@pytest.fixture
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_handler")
def test_an_acknowledged_interrupt_is_not_raised_again():
    with reraise_interrupts():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        acknowledge_interrupt()
        time.sleep(RERAISE_DELAY_S + 0.2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default_handler")
def test_a_second_ctrl_c_is_raised_while_the_first_is_handled():
    def press_twice():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)

    with reraise_interrupts(), pytest.raises(KeyboardInterrupt) as heard:
        press_twice()
    assert isinstance(heard.value.__context__, KeyboardInterrupt)


SLOW_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)  # inside an import, in a place that swallows what is raised
            except KeyboardInterrupt:
                raise ImportError("swallowed") from None

sys.meta_path.insert(0, Slow())
sys.argv = ["mindyn", "robots"]
from mindyn.__main__ import main
main()
"""


@pytest.mark.parametrize("name", ["typer", "mindyn.cli.robots_command", "numpy"])
def test_ctrl_c_during_an_import_ends_the_program_with_one_line(name):
    ran = subprocess.run(
        [sys.executable, "-c", SLOW_IMPORT.format(name=name)], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr == "interrupted: nothing was written\n"


def test_the_loaded_command_is_imported_under_guard():
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["scripts"]["mindyn"] == "mindyn.__main__:main"
