"""Diagnose contact: a few short segments contain most of the unexplained torque."""

from __future__ import annotations

import numpy as np

from mindyn.foundation.findings import Finding, Kind, warning
from mindyn.identification.diagnostics import thresholds as limit
from mindyn.identification.diagnostics.diagnostic_data import DiagnosticData
from mindyn.logs.samples import segment_ends


def run(data: DiagnosticData) -> list[Finding]:
    """Return a finding if residuals stand out in a few short segments of the logs."""
    from scipy.ndimage import median_filter

    width = max(1, round(limit.CONTACT_S * data.samples.rate_hz))
    if len(data.residuals) < width:
        return []
    # A mean would spread a shorter impact over this time. One joint at a time is 10 to 40 times as fast as all at once.
    smooth = np.stack([median_filter(column, width) for column in data.residuals.T], axis=1)
    smooth = smooth - np.median(smooth, axis=0)
    deviations = 1.4826 * np.median(np.abs(smooth), axis=0)
    is_large = (deviations > 0) & (np.abs(smooth) > limit.CONTACT_DEVIATIONS * deviations)
    for start, stop in segment_ends(data.samples.segments):  # there, filters and delays extrapolate the motion
        is_large[start : start + width] = is_large[max(start, stop - width) : stop] = False
    edges = np.flatnonzero(np.diff(is_large.any(axis=1), prepend=False, append=False)).reshape(-1, 2)
    segments = [slice(a, b) for a, b in edges.tolist() if b - a >= width]
    rows = np.zeros(len(smooth), dtype=np.bool_)
    for segment in segments:
        rows[segment] = True
    power = (smooth**2 / np.maximum((smooth**2).mean(axis=0), 1e-300)).sum(axis=1)
    fraction = float(power[rows].sum() / max(power.sum(), 1e-300))
    if fraction < 0.5 or rows.mean() > limit.MAX_CONTACT_ROWS:
        return []
    joints = tuple(name for name, hit in zip(data.samples.joint_names, is_large[rows].any(axis=0), strict=True) if hit)
    where = "one short segment" if len(segments) == 1 else f"{len(segments)} short segments"
    message = f"{100 * fraction:.0f} % of the unexplained torque lies in {where}, at {', '.join(joints)}: contact?"
    remedy = "If the arm was in contact, find the times with mindyn contact, exclude them, and identify again"
    return [warning(Kind.CONTACT, message, remedy, joints, float(len(segments)), "segments")]
