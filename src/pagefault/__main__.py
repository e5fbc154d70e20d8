"""`python -m pagefault` is the command line."""

from pagefault.cli.main import run

if __name__ == "__main__":
    run()
