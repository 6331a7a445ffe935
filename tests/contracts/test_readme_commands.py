"""The commands of README can be run in their order."""

from __future__ import annotations

from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_commands_record_a_log_and_confirm_its_columns():
    block = README.read_text().split("## Five lines of shell")[1].split("```")[1]
    steps = [
        line.removeprefix("# ").split()[1 if line.startswith("mindyn") else 0] for line in block.strip().splitlines()
    ]
    assert steps == ["excite", "record:", "log", "identify", "check", "export"]
    (inspection,) = [line for line in block.splitlines() if line.startswith("mindyn log")]
    assert "--confirm" in inspection  # `identify` rejects a draft that nobody confirmed
