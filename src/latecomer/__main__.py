"""`python -m latecomer`: the command `latecomer`, where its script is not on the PATH."""

from latecomer_command import main

if __name__ == "__main__":
    main()
