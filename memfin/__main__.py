"""``python -m memfin``."""

from memfin.cli.main import main

if __name__ == "__main__":
    main()
