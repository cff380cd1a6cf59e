"""`python -m fetchmill`: the same as the command."""

from fetchmill.cli import main

if __name__ == "__main__":
    main()
