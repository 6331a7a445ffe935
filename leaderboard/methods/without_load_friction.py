"""`identify` without friction that depends on the load: what that part of the model is worth."""

from dataclasses import replace

from mindyn import identify
from mindyn.applications.comparison.log_methods import EstimatePredictor

name = "mindyn without load friction"


def fit(robot, logs):
    estimate = identify(robot, list(logs))
    settings = estimate.settings
    if not settings.friction.needs_load:
        return EstimatePredictor(estimate)
    plain = replace(settings, friction=settings.friction.without_load())
    return EstimatePredictor(identify(robot, list(logs), settings=plain))
