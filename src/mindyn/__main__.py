"""`mindyn`, and `python -m mindyn`."""

from mindyn.interrupts import exit_on_interrupt


def main() -> None:
    """Run a command; Ctrl-C prints no traceback, also while modules are imported."""
    with exit_on_interrupt():
        from mindyn.cli.main import run
    run()


if __name__ == "__main__":
    main()
