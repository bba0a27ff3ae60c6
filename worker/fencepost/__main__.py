"""`python -m fencepost` is the command line."""

from fencepost.cli import main

main()
