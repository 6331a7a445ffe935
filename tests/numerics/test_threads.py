"""Tasks on threads: results in order, the first failure, no more threads than cores."""

from __future__ import annotations

import threading
from time import sleep

import pytest

from mindyn.numerics import threads
from mindyn.numerics.threads import map_in_threads


@pytest.fixture(autouse=True)
def three_cores(monkeypatch):
    monkeypatch.setattr(threads, "usable_cores", lambda: 3)


@pytest.mark.parametrize("at_once", [None, 1, 2, 8])
def test_results_are_in_order_and_threads_few(at_once):
    used = set()

    def square(number):
        used.add(threading.get_ident())
        sleep(0.002 * (number % 3))
        return number**2

    assert map_in_threads(square, range(40), at_once) == [number**2 for number in range(40)]
    assert len(used) <= min(3, at_once or 3)


def test_the_first_failure_in_order_is_raised_and_later_tasks_are_not_started():
    started = []

    def fail_from_5(number):
        started.append(number)
        sleep(0.01 if number == 5 else 0.0)
        if number >= 5:
            raise IndexError(number)

    with pytest.raises(IndexError) as failure:
        map_in_threads(fail_from_5, range(1000))
    assert failure.value.args == (5,)
    assert len(started) < 20
