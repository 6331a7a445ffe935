"""`mindyn excite`: design an exciting motion within limits, and write it for a controller."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer

from mindyn.cli.arguments import (
    JSON_OPTION,
    MESHES_OPTION,
    OUTPUT_PANEL,
    ROBOT_ARGUMENT,
    VERBOSE_OPTION,
    complete_from,
    load_and_hold,
    option_group,
    with_robot_options,
)
from mindyn.cli.choices import Purpose
from mindyn.cli.limits_file import MotionOptions, read_limits_file, with_motion_options
from mindyn.cli.next_step import format_robot_options, print_next_command
from mindyn.cli.output_files import require_motion_file
from mindyn.cli.printing import (
    NOTHING_WRITTEN,
    count_messages,
    print_json,
    print_notes,
    print_output,
    print_problems,
    print_status,
)
from mindyn.foundation.atomic_files import require_writable
from mindyn.foundation.errors import Code, InputError
from mindyn.foundation.findings import Kind

if TYPE_CHECKING:
    from mindyn.motions.excitation.motion_design import MotionDesign
    from mindyn.robots.loading import RobotOptions
    from mindyn.robots.meshes import Meshes


CORRECTABLE: Final = (Kind.GUESSED_LIMIT, Kind.GUESSED_VOLUME, Kind.GUESSED_FLOOR, Kind.GUESSED_NOISE)
"""Findings about guesses that the file of limits replaces."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of the search: functions of time, random starts, and the time limit."""

    harmonics: int
    starts: int
    seed: int
    deadline_s: float | None


def parse_search_options(
    harmonics: Annotated[int, typer.Option(help="Harmonics of the Fourier series.")] = 5,
    starts: Annotated[int, typer.Option(help="Number of random starts.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the random starts.")] = 0,
    deadline_s: Annotated[float | None, typer.Option(help="Time limit, s; the best motion so far is kept.")] = None,
) -> SearchOptions:
    """Return the options of the search that a command line gives."""
    return SearchOptions(harmonics, starts, seed, deadline_s)


@with_robot_options
@with_motion_options
@option_group("search", parse_search_options, "Search")
def excite(
    robot: Annotated[str, ROBOT_ARGUMENT],
    seconds: Annotated[float | None, typer.Option(help="Length, s; default: 20, for servos 120.")] = None,
    purpose: Annotated[
        str,
        typer.Option(
            "--for",
            help="What to identify: arm, payload (of a known arm) or servo (gains, friction and armature).",
            autocompletion=complete_from(get_args(Purpose)),
            metavar="PURPOSE",
        ),
    ] = "arm",
    speed: Annotated[float, typer.Option(help="Fraction of the speed limits; 1.0 only after a first run.")] = 0.5,
    acceleration: Annotated[float, typer.Option(help="Fraction of the acceleration limits.")] = 0.5,
    rate_hz: Annotated[float, typer.Option(help="Rate of the log that will be recorded, Hz.")] = 100.0,
    motions: Annotated[int, typer.Option(help="Number of motions that complement each other.")] = 1,
    *,
    motion: MotionOptions,
    search: SearchOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for samples, coefficients, ROS 2, URScript and plot; motion1, ... with --motions.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    controller_hz: Annotated[
        float | None,
        typer.Option(help="Rate of the written samples, Hz; default: that of the log.", rich_help_panel=OUTPUT_PANEL),
    ] = None,
    meshes: Annotated[bool, MESHES_OPTION] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
    verbose: Annotated[bool, VERBOSE_OPTION] = False,
    options: RobotOptions,
) -> None:
    """Design an exciting motion within a robot's limits; Ctrl-C keeps the best motion so far."""
    from mindyn.foundation.algebra.requirements import require_positive
    from mindyn.motions.excitation.complementary import design_motions
    from mindyn.motions.excitation.design_inputs import ExpectedLog, MotionSettings, SearchSettings
    from mindyn.motions.excitation.limits import MotionLimits
    from mindyn.motions.excitation.motion_files import files_at
    from mindyn.motions.excitation.motions import Fourier
    from mindyn.motions.excitation.servo_design import SECONDS, servo_family
    from mindyn.robots.meshes import read_meshes

    arm, options, held = load_and_hold(options, robot, motion.move)
    if meshes and out is None:
        raise InputError(
            "--meshes needs --out: meshes are drawn on the page of the motion",
            hint="--out motion",
            code=Code.MISSING_VALUE,
            subject="--out",
        )
    given = read_limits_file(motion.limits, arm, held)
    bounds = MotionLimits.from_dict(arm, given.bounds)
    safety = replace(motion.safety, **given.surroundings)
    if motions > 1 and out is not None and out.suffix:
        raise InputError(
            f"--motions {motions} needs a folder, got '{out}'",
            hint="--out motions",
            code=Code.INVALID_VALUE,
            subject="--out",
        )
    if out is not None:
        files = files_at(out)
        if out.suffix and not out.is_dir():
            require_motion_file(out, files)
        require_writable(files[0].parent)  # raise before the search, not after it
    if controller_hz is not None:
        require_positive(controller_hz, "--controller-hz", "such as 125")
    length = seconds if seconds is not None else SECONDS if purpose == "servo" else 20.0
    family = servo_family(length, search.harmonics) if purpose == "servo" else Fourier(search.harmonics)
    settings = SearchSettings(search.starts, search.deadline_s)
    with count_messages("designing", (search.starts + 1) * max(motions, 1), verbose=verbose) as talk:
        designs = design_motions(
            arm,
            motions,
            seconds=length,
            purpose=purpose,
            limits=bounds,
            motion=MotionSettings(family, speed, acceleration, given.start, given.home, motion.move),
            safety=safety,
            log=ExpectedLog(rate_hz, given.noise),
            search=settings,
            rng=search.seed,
            progress=talk,
        )
    if any(design.is_interrupted and design.determined_count == 0 for design in designs):
        raise KeyboardInterrupt("no motion found so far determines a parameter; nothing was written")
    drawn = read_meshes(robot, arm) if meshes else None
    if as_json:
        print_json(designs[0].to_dict() if motions == 1 else {"motions": [design.to_dict() for design in designs]})
    for number, design in enumerate(designs, start=1):
        if motions > 1 and not as_json:
            print_output(
                f"Motion {number} of {motions}" + (", with the logs of the earlier ones:" if number > 1 else ":")
            )
        if not as_json:
            _print_design(design, verbose=verbose)
    print_problems((*held, *(finding for design in designs for finding in design.findings)), verbose=verbose)
    is_unfinished = any(design.is_interrupted for design in designs)
    if out is None:
        if is_unfinished:
            raise KeyboardInterrupt(f"the search was not finished; {NOTHING_WRITTEN}")
        return
    print_notes(() if drawn is None else drawn.findings)
    rate = rate_hz if controller_hz is None else controller_hz
    for number, design in enumerate(designs, start=1):
        _write_design(design, out if motions == 1 else out / f"motion{number}", rate, drawn)
    if is_unfinished:
        raise KeyboardInterrupt(f"the search was not finished; {out} holds the best motion so far")
    folder = out if motions == 1 else out / "motion1"
    if folder.is_dir():
        print_next_command("simulate", robot, *format_robot_options(options), "--motion", folder, "--out", "run1.csv")


def _print_design(design: MotionDesign, *, verbose: bool) -> None:
    """Print the verdict on a design; with `verbose` also what was checked and its table."""
    checked, *sentences, ending = design.summary()
    for sentence in sentences:
        print_output(sentence)
    closest = None if design.check is None else design.check.closest
    if closest is not None:
        way = "approach not checked" if design.approach is None else "approach and return checked"
        print_output(f"Smallest distance {1e3 * closest.distance_m:.0f} mm ({closest.label}); {way}.")
    if verbose:
        print_output(checked)
        print_output(ending)
        print_output(design.table())


def _write_design(design: MotionDesign, out: Path, rate_hz: float, drawn: Meshes | None) -> None:
    """Write the files of a design, and print what to do with them."""
    written = design.write(out, rate_hz=rate_hz, meshes=drawn)
    print_status(f"written to {out if out.is_dir() else out.parent}: {', '.join(path.name for path in written)}")
    if any(finding.kind in CORRECTABLE for finding in design.findings) and (out / "limits.toml").is_file():
        print_status(f"to correct guesses, edit {out / 'limits.toml'} and pass it with --limits")
    if design.errors:
        print_status(f"do not play these files on a robot: {'; '.join(design.errors)}")
    elif any("rehearsal" in path.name for path in written):
        print_status(
            "play the rehearsal first: the same path, no point of the arm faster than 0.25 m/s; then the motion"
        )
