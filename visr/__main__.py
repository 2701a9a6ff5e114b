"""`python -m visr` is `visr`."""

import sys

from visr.cli import main

if __name__ == "__main__":
    sys.exit(main())
