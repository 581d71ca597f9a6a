"""`python -m tensorc` is the command line."""

from tensorc.cli import main

main()
