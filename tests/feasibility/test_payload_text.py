"""`print(payload)` shows mass, centre and inertia with intervals."""

from __future__ import annotations

import numpy as np
import pytest
from closeness import assert_close

from mindyn.cli.payload_command import format_with_width
from mindyn.foundation.algebra.inertia import mass_com_inertia, phi_about_origin
from mindyn.identification.runs_with_loads import Payload

PHI = phi_about_origin(2.0, np.array([0.1, -0.05, 0.2]), np.diag([0.02, 0.03, 0.04]))


def test_a_payload_prints_what_it_weighs():
    text = str(Payload("tool0", PHI, np.diag(np.full(10, 1e-8)), ("Izz",)))
    for part in ("tool0", "2 kg", "0.1", "-0.05", "0.03", "+-", "Izz"):
        assert part in text
    assert "array" not in text


def test_half_widths_of_the_inertia_are_those_of_drawn_parameters():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(10, 10))
    covariance = 1e-8 * A @ A.T
    drawn = rng.multivariate_normal(PHI, covariance, 20_000)
    spread = np.std([mass_com_inertia(phi)[2] for phi in drawn], axis=0)
    payload = Payload("tool0", PHI, covariance, ())
    assert_close(payload.inertia_half_widths / payload.factor, spread, 0.03)


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (0.01234567, 0.0123, "0.0123 +- 0.0123"),
        (0.01234567, 2.34e-6, "0.0123457 +- 0.0000023"),
        (0.01234567, 2.34e-12, "0.012345670 +- 2e-12"),
        (0.1, 0.0, "0.1000 (no interval)"),
        (0.1, float("inf"), "0.1000 +- inf"),
    ],
)
def test_a_small_half_width_is_not_printed_as_zero(value, width, text):
    assert format_with_width(value, width) == text
