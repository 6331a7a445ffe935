"""Compiled models of robots with loops, with their closure and the motion of all joints."""

from __future__ import annotations

from mindyn.equations.loop_closure import loop_closure, state_of, with_home
from mindyn.kernels.model import compile_model


class ClosedModel:
    """A compiled model, its closure, and the motion of all joints."""

    def __init__(self, robot, drives, home):
        self.closure = loop_closure(robot, home)
        self.model = compile_model(with_home(robot, home), with_drives=drives)
        self.primary_names = robot.primary_names

    def motion(self, p, pd=None, pdd=None):
        """Return the motion of all joints."""
        return state_of(self.closure, self.closure.positions(p), pd, pdd)

    def regressor(self, p, pd, pdd, base):
        """Return Y (..., k, count) with tau = Y beta."""
        return self.model.standard_regressor(p, pd, pdd) @ base.embedding

    def __getattr__(self, name):
        return getattr(self.model, name)


def closed_model(robot, *, with_drives=False, home=None):
    """Return the model of a robot with loops in the assembly of `home`."""
    return ClosedModel(robot, with_drives, home)
