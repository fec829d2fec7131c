"""``python -m regard``: the command line, where no ``regard`` is on the path."""

from regard.cli import main

if __name__ == "__main__":
    main()
