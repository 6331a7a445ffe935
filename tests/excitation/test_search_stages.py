"""Stages of the search for a motion: each must do what it is there for, and not only pass on what it was given."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg.lapack

import mindyn
from mindyn.motions.excitation import descent, problem, solving
from mindyn.motions.excitation.descent import Descent, Point
from mindyn.motions.excitation.solving import Search, exact_value, feasible

KNOTS = 8
"""Few knots per cycle, so that a motion exceeds its limits by one or two percent between them."""


@pytest.fixture
def ending(monkeypatch):
    """Return a search, the result of its first stages, and a list of motions that the search makes feasible."""
    monkeypatch.setattr(problem, "KNOTS_PER_CYCLE", KNOTS)
    reached, ended, finish = [], [], Search._finish

    def finish_and_keep(self, point):
        reached.append((self, point))
        return finish(self, point)

    def shrink(of, motion, instants):
        ended.append(motion)
        return feasible(of, motion, instants)

    monkeypatch.setattr(Search, "_finish", finish_and_keep)
    robot = mindyn.load_robot("planar2")
    limits = mindyn.MotionLimits.of(robot, lower=-2.0, upper=2.0, velocity=2.0, effort=4000.0)
    mindyn.design_motion(robot, seconds=6.0, limits=limits, search=mindyn.SearchSettings(starts=1), rng=0)
    monkeypatch.setattr(Search, "_finish", finish)
    monkeypatch.setattr(solving, "feasible", shrink)
    return *reached[0], ended


def largest_part(search, motion):
    """Return the largest used fraction of the limits of position, velocity and acceleration at 10 kHz."""
    limits, t = search.problem.limits, np.arange(0, motion.seconds, 1e-4)
    q, qd, qdd = (motion.derivative(t, order) for order in range(3))
    parts = (q - limits.middle) / limits.reach, qd / limits.velocity, qdd / limits.acceleration
    return max(float(np.abs(part).max()) for part in parts)


def test_the_last_stages_repair_a_motion_that_exceeds_limits_between_the_knots(ending, monkeypatch):
    """Without a repair it would be shrunk as a whole, which costs more."""
    search, point, ended = ending
    begun = search.problem.motion(search._stage(point, solving.STAGES[1]).x)
    assert largest_part(search, begun) > 1.005, "the test is void: nothing is exceeded"
    value = search._finish(point)
    assert largest_part(search, ended[-1]) <= 1 + 1e-4
    assert search.problem.worst(ended[-1], search.dense).max() <= 1, "nor tip speed or a distance"
    shrunk = feasible(search.problem, begun, search.dense)
    assert value < exact_value(search.problem, shrunk) - 0.01
    monkeypatch.setattr(solving, "REPAIRS", 1)
    once = search._finish(point)
    assert search.problem.worst(ended[-1], search.dense).max() > 1.005, "the test is void: the first repair is enough"
    assert value < once - 0.005


def test_repairs_end_when_they_do_not_help(ending, monkeypatch):
    search, point, _ = ending
    stages = []
    run = Search._stage

    def count(self, at, stage, margin=0.0):
        stages.append(margin)
        return run(self, at, stage, margin)

    monkeypatch.setattr(Search, "_stage", count)
    exceeded = search.problem.greatest_by_segment(search.problem.motion(point.x), search.dense)
    monkeypatch.setattr(Search, "_seen", lambda *_: np.full_like(exceeded, 1.5))
    search._finish(point)
    assert len(stages) == 2, "the last stages run once if a limit stays exceeded by half of itself"


def crowd(x):
    """A bowl whose bottom lies outside of many planes around the origin."""
    return float(x @ x - 6 * x.sum()), lambda: 2 * x - 6


def crowd_limits(x):
    """Curved limits, of which few are reached at the minimum."""
    rows = np.random.default_rng(0).normal(size=(80, len(x)))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows @ x + 0.05 * x @ x - 1, lambda: rows + 0.1 * x


def test_a_program_begins_with_the_constraints_that_were_active_before(monkeypatch):
    guesses, ended = [], []
    shortest = descent.shortest

    def ask(G, h, active=None):
        forces = shortest(G, h, active)
        guesses.append(active.sum())
        ended.append(None if forces is None else (forces > 0).sum())
        return forces

    monkeypatch.setattr(descent, "shortest", ask)
    result = Descent(crowd, crowd_limits, Point(np.zeros(12)), ends=1e-10).go(60)
    assert crowd_limits(result.x)[0].max() < 1e-8
    reached = int((crowd_limits(result.x)[0] > -1e-6).sum())
    assert reached >= 5, "the test is void: no constraint is active"
    assert guesses[0] == 0
    assert guesses[-1] == ended[-1] == reached
    assert count_factors(monkeypatch) < 0.6 * count_factors(monkeypatch, forget=True)


def count_factors(monkeypatch, *, forget=False):
    """Return how many systems a whole descent solves; with `forget`, every program begins without active ones."""
    solved, solve = [], scipy.linalg.lapack.dposv

    def count(*given):
        solved.append(len(given[0]))
        return solve(*given)

    with monkeypatch.context() as patched:
        patched.setattr(scipy.linalg.lapack, "dposv", count)
        running = Descent(crowd, crowd_limits, Point(np.zeros(12)), ends=1e-10)
        for _ in range(60):
            running.go(1)
            if forget:
                running._active = np.zeros(0, dtype=bool)
    return len(solved)
