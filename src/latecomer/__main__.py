"""`python -m latecomer`: the command line, where its script is not on the PATH."""

from latecomer.cli import main

main()
