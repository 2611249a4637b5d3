"""``python -m roofline`` is the program ``roofline``."""

from .cli import main

if __name__ == "__main__":
    main()
