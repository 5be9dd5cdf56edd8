"""`python -m unienv_data`: the command line."""

from unienv_data.tools.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
