"""A motion as a C header: its coefficients, and a function that evaluates them, in C99 with libm."""

from __future__ import annotations

from collections.abc import Iterable
from math import factorial

import numpy as np

from mindyn.algebra.values import Array
from mindyn.errors import Code, ExportError
from mindyn.escaping import c_comment
from mindyn.excitation.fourier import RAMPS, Fourier
from mindyn.excitation.motions import Motion
from mindyn.excitation.splines import SPLINE_DEGREE, BSpline
from mindyn.robots.robot import Robot


def c_header(motion: Motion, robot: Robot) -> str:
    """Return the text of the header."""
    family = motion.family
    if isinstance(family, Fourier):
        body = _fourier(motion, family)
    elif isinstance(family, BSpline):
        body = _spline(motion, family)
    else:
        kind = type(family).__name__
        message = f"a motion of the family {kind} cannot be written as C code; use Fourier or BSpline"
        raise ExportError(message, code=Code.UNSUPPORTED, subject=kind)
    joints = c_comment(", ".join(robot.primary_names))
    return f"""/* Motion of robot {c_comment(robot.name)}: {motion.seconds:g} s, from rest to rest.
   Joints: {joints}. Positions rad or m, times s. */
#ifndef MOTION_H
#define MOTION_H
#include <math.h>

#define MOTION_JOINTS {robot.joint_count}
#define MOTION_SECONDS {motion.seconds!r}

static const double motion_start[{robot.joint_count}] = {_braces(motion.start)};
{body}
#endif
"""


def _braces(values: Array) -> str:
    """Return an array of any shape as a C initialiser with all digits."""
    if values.ndim == 1:
        return "{" + ", ".join(float(v).hex() for v in values) + "}"
    return "{" + ",\n  ".join(_braces(row) for row in values) + "}"


def _polynomial(coefficients: Iterable[float], variable: str) -> str:
    text = "0.0"
    for value in reversed(list(coefficients)):
        text = f"({text}) * {variable} + {float(value)!r}"
    return text


def _fourier(motion: Motion, family: Fourier) -> str:
    sines, cosines = family.amplitudes(motion.coefficients)
    shape = f"[{family.harmonics}][{sines.shape[1]}]"
    w = 2 * np.pi / family.period(motion.seconds)
    shift = np.zeros(sines.shape[1]) if family.ramp_s else -cosines.sum(axis=0)
    return f"""static const double motion_sines{shape} = {_braces(sines)};
static const double motion_cosines{shape} = {_braces(cosines)};
static const double motion_shift[{len(shift)}] = {_braces(shift)};

{_ramp(family)}
/* Position, velocity and acceleration at time t; at rest before and after the motion. */
static void motion_reference(double t, double *q, double *qd, double *qdd)
{{
    const double w = {w!r};
    double ramp[3];
    const double s = t < 0 ? 0 : (t > MOTION_SECONDS ? MOTION_SECONDS : t);
    motion_ramp(s, ramp);
    for (int j = 0; j < MOTION_JOINTS; ++j) {{
        double f = motion_shift[j], fd = 0, fdd = 0;
        for (int k = 0; k < {family.harmonics}; ++k) {{
            const double v = (k + 1) * w, c = cos(v * (s - {family.ramp_s!r})), d = sin(v * (s - {family.ramp_s!r}));
            f += motion_sines[k][j] * d + motion_cosines[k][j] * c;
            fd += v * (motion_sines[k][j] * c - motion_cosines[k][j] * d);
            fdd -= v * v * (motion_sines[k][j] * d + motion_cosines[k][j] * c);
        }}
        q[j] = motion_start[j] + ramp[0] * f;
        qd[j] = s == t ? ramp[0] * fd + ramp[1] * f : 0;
        qdd[j] = s == t ? ramp[0] * fdd + 2 * ramp[1] * fd + ramp[2] * f : 0;
    }}
}}"""


def _ramp(family: Fourier) -> str:
    """Return the C function of the ramp and its two derivatives."""
    if not family.ramp_s:
        return "static void motion_ramp(double t, double *r) { (void)t; r[0] = 1; r[1] = 0; r[2] = 0; }\n"
    r = family.ramp_s
    shapes = [_polynomial(coefficients, "u") for coefficients in RAMPS[:3]]
    return f"""static void motion_ramp(double t, double *r)
{{
    const double last = (MOTION_SECONDS - t) / {r!r}, first = t / {r!r};
    const double u = first < last ? first : last, sign = first < last ? 1 : -1;
    r[0] = u < 1 ? {shapes[0]} : 1;
    r[1] = u < 1 ? sign * ({shapes[1]}) / {r!r} : 0;
    r[2] = u < 1 ? ({shapes[2]}) / {r * r!r} : 0;
}}
"""


def _spline(motion: Motion, family: BSpline) -> str:
    begins = family.knots(motion.seconds)[SPLINE_DEGREE : SPLINE_DEGREE + family.intervals]
    spline = family.spline(motion.coefficients, motion.seconds)
    taylor = [spline.derivative(k)(begins) / factorial(k) if k else spline(begins) for k in range(SPLINE_DEGREE + 1)]
    c = np.stack(taylor[::-1], axis=-1)
    return f"""/* Powers 5 to 0 of the time since the piece began. */
static const double motion_pieces[{family.intervals}][{c.shape[1]}][{SPLINE_DEGREE + 1}] = {_braces(c)};

/* Position, velocity and acceleration at time t; at rest before and after the motion. */
static void motion_reference(double t, double *q, double *qd, double *qdd)
{{
    const double s = t < 0 ? 0 : (t > MOTION_SECONDS ? MOTION_SECONDS : t), step = MOTION_SECONDS / {family.intervals};
    int piece = (int)(s / step);
    piece = piece < {family.intervals} ? piece : {family.intervals - 1};
    const double u = s - piece * step;
    for (int j = 0; j < MOTION_JOINTS; ++j) {{
        const double *c = motion_pieces[piece][j];
        q[j] = motion_start[j] + ((((c[0] * u + c[1]) * u + c[2]) * u + c[3]) * u + c[4]) * u + c[5];
        qd[j] = s == t ? (((5 * c[0] * u + 4 * c[1]) * u + 3 * c[2]) * u + 2 * c[3]) * u + c[4] : 0;
        qdd[j] = s == t ? ((20 * c[0] * u + 12 * c[1]) * u + 6 * c[2]) * u + 2 * c[3] : 0;
    }}
}}"""
