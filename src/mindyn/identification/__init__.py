"""The one verb: settings chosen inside the training rows, equations, fit, judgement."""
