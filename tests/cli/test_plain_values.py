"""Arguments that are converted without pydantic have the values that typer itself gives."""

from pathlib import Path

import pytest
from cli.program import mindyn_program

from mindyn.cli.main import COMMANDS, load_command
from mindyn.cli.plain_values import PlainConversion, convert_plainly, describe_wrong_number

TEXTS = ["", " ", "3", "+3", "-3", "007", "3.0", ".5", "5.", "1e-3", "1E5", "nan", "inf", "-inf", "1_0", "٣", "0x10"]
TEXTS += [" 3", "3 ", "true", "no", "fixed", "Fixed", "floating", "world", "run.csv", "a b", "-", "..", "1,5", "9" * 25]
TEXTS += ["C:\\runs\\run.csv", "joint=1", "naïve.csv", "--", "2%", "1e999", "/no/such/file", "~", "."]


def converted(make, param, value):
    """Return the type and value that a conversion gives, or its error message."""
    try:
        result = make().coerce(value, param=param, ctx=None)
    except Exception as error:
        is_number = "number" in str(error) or "integer" in str(error)  # these errors are our own
        return "not a number" if is_number else str(error)
    return type(result), repr(result)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_parameter_has_the_value_that_typer_gives(command):
    for param in load_command(command).params:
        ours, typers = param.get_runtime_param, type(param).get_runtime_param.__get__(param)
        if param.nargs != 1 or param.multiple:
            count = 1 if param.nargs == -1 or param.multiple else param.nargs
            values = [(text,) * count for text in TEXTS] + [("1",) * (count + 1), ()]
        else:
            values = TEXTS
        for value in (*values, None, param.default):
            assert converted(ours, param, value) == converted(typers, param, value), (param.name, value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("30%", "'30%' is not a number; 30 % of a whole is 0.3"),
        ("2,5 %", "'2,5 %' is not a number; 2.5 % of a whole is 0.025"),
        ("0,3", "'0,3' is not a number; write 0.3"),
        ("10s", "'10s' is not a number"),
        ("1,000,000", "'1,000,000' is not a number"),
        ("", "'' is not a number"),
    ],
)
def test_a_wrong_number_is_named_with_the_likely_one(text, message):
    assert describe_wrong_number(text) == message
    ended = mindyn_program("identify", "planar2", "run.csv", f"--hold-out={text}")
    assert ended.code == 2
    assert message in " ".join(ended.err.split())


def test_plain_values_need_no_typer():
    def unavailable():
        raise AssertionError

    class Single:
        multiple, nargs = False, 1

    for annotation, text, value in ((str, "x", "x"), (Path, "x", Path("x")), (int, "3", 3), (float, "2e-3", 2e-3)):
        assert PlainConversion(annotation, unavailable).coerce(text, Single, None) == value
    assert convert_plainly(list[Path], ("a", "b")) == [Path("a"), Path("b")]
    assert convert_plainly(tuple[float, float, float], ("0", "0", "-9.81")) == (0.0, 0.0, -9.81)
    assert convert_plainly(int, "3.5") is None


def test_unreadable_file_is_left_to_typer(tmp_path, monkeypatch):
    (tmp_path / "run.csv").touch()
    monkeypatch.setattr("os.access", lambda _, mode: mode == 0)
    assert convert_plainly(Path, str(tmp_path / "run.csv")) is None
