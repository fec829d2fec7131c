"""``python -m regard``: the command line without a ``regard`` program on the path."""

from regard.cli import main

if __name__ == "__main__":
    main()
