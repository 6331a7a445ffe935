"""Entry point of the command `mindyn` and of `python -m mindyn`."""

from mindyn.foundation.interrupts import exit_on_interrupt


def main() -> None:
    """Run the command line; Ctrl-C prints no traceback, not even while modules are imported."""
    with exit_on_interrupt():
        from mindyn.cli.main import run
    run()


if __name__ == "__main__":
    main()
