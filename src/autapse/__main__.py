"""`python -m autapse`, which is also what torchrun starts."""

import sys

from autapse.cli import main

if __name__ == "__main__":
    sys.exit(main())
