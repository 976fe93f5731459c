"""`python -m autapse`; torchrun starts this module too."""

import sys

from autapse.cli import main

if __name__ == "__main__":
    sys.exit(main())
