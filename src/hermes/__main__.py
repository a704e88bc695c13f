"""`python -m hermes`."""

from hermes.cli.main import run

if __name__ == "__main__":
    run()
