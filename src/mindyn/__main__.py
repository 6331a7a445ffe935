"""`python -m mindyn` is the command `mindyn`."""

from mindyn.cli.main import run

if __name__ == "__main__":
    run()
