"""`Elasticity`: stiffness, damping and hysteresis of elastic joints with intervals, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from mindyn.foundation.algebra.values import Array
from mindyn.foundation.errors import Code, InputError, pluralise, unknown_name_error
from mindyn.foundation.json_values import to_json_value
from mindyn.identification.estimators.result_files import (
    ResultFormat,
    require_unchanged,
    result_folder,
    with_located_paths,
    with_relative_paths,
    write_result,
)
from mindyn.logs.log import SourceFile
from mindyn.robots.table import format_table

ELASTICITY_FILE: Final = "elasticity.json"
ELASTICITY_FORMAT: Final = ResultFormat(
    "mindyn elasticity 1",
    "an",
    "elasticity",
    ELASTICITY_FILE,
    "mindyn elasticity --out writes it for logs with motor positions",
)
"""File of a run folder with the elasticity of its joints."""
State = Literal["determined", "not visible", "not separable", "poorly determined", "unusable"]


@dataclass(frozen=True, slots=True)
class JointElasticity:
    """Elasticity of one joint: d = (tau - D d(d)/dt) / K, and what the encoders add to it.

    Attributes
    ----------
    joint : str
        Name of the joint.
    state : {"determined", "not visible", "not separable", "poorly determined", "unusable"}
        Whether the logs determine the compliance; "not visible": the deflection is too small for these encoders; "not
        separable": the rotor inertia has the same effect; "unusable": there is no motor position of this joint.
    reason : str
        Why the compliance is not determined; empty if it is.
    compliance : float
        1 / K, in rad/(N m) or m/N. NaN if the state is "unusable".
    compliance_interval : tuple of float
        95 % interval with the errors of the model. It contains zero if no elasticity is visible.
    damping : float
        D, in N m s/rad or N s/m; NaN if it is not determined.
    damping_interval : tuple of float
        95 % interval.
    hysteresis : float
        Torque at which the hysteresis saturates, in N m or N; zero without hysteresis.
    hysteresis_width : float
        Torque over which it follows a reversal, in N m or N.
    backlash : float
        Full width, in rad or m; zero without backlash.
    offset : float
        Mean difference of the zeros of the encoders, in rad or m.
    time_offset_s : float
        Time by which the position of the link is behind that of the motor, with viscous friction beyond the spring.
    friction : float
        Coulomb friction beyond the spring, as a deflection, in rad or m.
    rotor_inertia : float
        Rotor inertia that the fit subtracts from the link model, in kg m^2 or kg.
    deviation : float
        rms of the deflection around its mean, in rad or m.
    residual : float
        rms of the deflection that the model leaves unexplained, in rad or m.
    torque_range : tuple of float
        Least and greatest torque through the joint in the logs, in N m or N.
    """

    joint: str
    state: State
    reason: str = ""
    compliance: float = np.nan
    compliance_interval: tuple[float, float] = (np.nan, np.nan)
    damping: float = np.nan
    damping_interval: tuple[float, float] = (np.nan, np.nan)
    hysteresis: float = 0.0
    hysteresis_width: float = 0.0
    backlash: float = 0.0
    offset: float = 0.0
    time_offset_s: float = 0.0
    friction: float = 0.0
    rotor_inertia: float = 0.0
    deviation: float = np.nan
    residual: float = np.nan
    torque_range: tuple[float, float] = (np.nan, np.nan)

    @property
    def is_determined(self) -> bool:
        """Whether the logs determine the stiffness."""
        return self.state == "determined"

    @property
    def stiffness(self) -> float:
        """K, in N m/rad or N/m; NaN if it is not determined."""
        return 1 / self.compliance if self.is_determined else np.nan

    @property
    def stiffness_interval(self) -> tuple[float, float]:
        """95 % interval of K; infinite where the compliance may be zero, and NaN if nothing is known."""
        low, high = self.compliance_interval
        if np.isnan(high) or high <= 0:
            return np.nan, np.nan
        return 1 / high, 1 / low if low > 0 else np.inf

    @property
    def relative_residual(self) -> float:
        """Rms of the unexplained deflection relative to the rms of the deflection."""
        return self.residual / self.deviation if self.deviation > 0 else np.nan


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Elasticity:
    """Elasticity of the joints of a robot, by `identify_elasticity`.

    Attributes
    ----------
    joints : tuple of JointElasticity
        One for each joint, in the order of the robot.
    cutoff_hz : float
        Cut-off of the deflections.
    rows : int
        Number of rows.
    sources : tuple of SourceFile
        Files of the logs.
    curves : tuple of array of shape (k, 2)
        Torque through each joint and its deflection without offsets, in time order, for plots.
    """

    joints: tuple[JointElasticity, ...]
    cutoff_hz: float
    rows: int
    sources: tuple[SourceFile, ...] = ()
    curves: tuple[Array, ...] = ()

    def __repr__(self) -> str:
        count = sum(joint.is_determined for joint in self.joints)
        return f"Elasticity({pluralise(len(self.joints), 'joint')}, {count} determined)"

    def __getitem__(self, joint: str) -> JointElasticity:
        names = [entry.joint for entry in self.joints]
        if joint not in names:
            raise unknown_name_error("joint", joint, names)
        return self.joints[names.index(joint)]

    @property
    def stiffness(self) -> Array:
        """K (n,) of the joints; infinite where it is not determined: such joints are taken as rigid."""
        return np.array([entry.stiffness if entry.is_determined else np.inf for entry in self.joints])

    @property
    def damping(self) -> Array:
        """D (n,) of the joints; zero where it is not determined."""
        known = [entry.is_determined and entry.damping > 0 for entry in self.joints]
        return np.array([e.damping if is_known else 0.0 for e, is_known in zip(self.joints, known, strict=True)])

    def motor_positions(self, q: ArrayLike, tau: ArrayLike) -> Array:
        """Return the motor positions theta = q + tau / K that hold the links at q: feedforward of elastic joints.

        Parameters
        ----------
        q : (..., n) array_like
            Link positions, in rad or m.
        tau : (..., n) array_like
            Torques through the joints, in N m or N: those of inverse dynamics without friction and rotors.

        Returns
        -------
        (..., n) array
            Motor positions divided by the gear ratios. Joints whose stiffness is not determined stay at q.
        """
        links, torques = np.asarray(q, dtype=np.float64), np.asarray(tau, dtype=np.float64)
        n = len(self.joints)
        for values, name in ((links, "q"), (torques, "tau")):
            if values.ndim == 0 or values.shape[-1] != n:
                raise InputError(
                    f"{name} must have the shape (..., {n}), one column for each joint; got {values.shape}",
                    code=Code.WRONG_SHAPE,
                    subject=name,
                )
        return np.asarray(links + torques / self.stiffness)

    def table(self) -> str:
        """Return a text table: what is determined, then values and intervals."""
        rows: list[tuple[str, ...]] = [
            ("joint", "elasticity", "stiffness, 1e3 N m/rad or N/m", "95 % interval", "damping", "unexplained")
        ]
        for entry in self.joints:
            low, high = entry.stiffness_interval
            shown = f"{entry.stiffness / 1e3:.4g}" if entry.is_determined else "-"
            ends = f"{low / 1e3:.4g} to {high / 1e3:.4g}" if np.isfinite(high) else "-"
            if entry.state == "not visible" and np.isfinite(low):
                ends = f"above {low / 1e3:.3g}"
            damping = "-" if not entry.is_determined or np.isnan(entry.damping) else f"{entry.damping:.3g}"
            residual = "-" if np.isnan(entry.relative_residual) else f"{100 * entry.relative_residual:.3g} %"
            rows.append((entry.joint, entry.state, shown, ends, damping, residual))
        notes = [f"{entry.joint}: {entry.reason}" for entry in self.joints if entry.reason]
        return "\n".join([format_table(rows), *([""] if notes else []), *notes])

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON can store them."""
        return {
            "format": ELASTICITY_FORMAT.name,
            "cutoff_hz": self.cutoff_hz,
            "rows": self.rows,
            "joints": [to_json_value(asdict(entry)) for entry in self.joints],
            "sources": [asdict(source) for source in self.sources],
            "curves": [curve.tolist() for curve in self.curves],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Elasticity:
        """Return the elasticity from `to_dict`; sources and curves may be missing, as in the zoo."""
        names = {entry.name for entry in fields(JointElasticity)}
        joints = tuple(
            JointElasticity(**{key: _from_json(value) for key, value in entry.items() if key in names})
            for entry in values["joints"]
        )
        sources = tuple(SourceFile.from_dict(source) for source in values.get("sources", ()))
        curves = tuple(np.array(curve, dtype=np.float64).reshape(-1, 2) for curve in values.get("curves", ()))
        return cls(joints, float(values["cutoff_hz"]), int(values["rows"]), sources, curves)

    def save(self, path: str | Path, folder: str | Path | None = None) -> Path:
        """Write the elasticity to a JSON file and return its path.

        Parameters
        ----------
        path : str or Path
            File to write.
        folder : str or Path, optional
            Folder that the file will be moved to, from which the paths of logs are stated.

        Returns
        -------
        Path
            The written file.
        """
        values = self.to_dict()
        values["sources"] = with_relative_paths(values["sources"], result_folder(path, folder))
        return write_result(path, values)


def load_elasticity(path: str | Path) -> Elasticity:
    """Load the elasticity of joints.

    Parameters
    ----------
    path : str or Path
        A JSON file, or the folder of a run.

    Returns
    -------
    Elasticity
        The elasticity, with all digits of the saved one.

    Raises
    ------
    InputError
        If the file is missing, damaged, or of another format.
    """
    return ELASTICITY_FORMAT.read(path, _convert)


def _convert(values: Mapping[str, Any], path: Path) -> Elasticity:
    require_unchanged(values, path)
    elasticity = Elasticity.from_dict(values)
    return replace(elasticity, sources=with_located_paths(elasticity.sources, path))


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_json(item) for item in value)
    return np.nan if value is None else value
