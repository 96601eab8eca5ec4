"""Sets up CoDA: virtual environment, packages, interfaces. Standard library only.

The first lines must be understood by any Python, so that an old one says what is wrong, not a syntax error.
"""

import sys

if not (3, 10) <= sys.version_info[:2] <= (3, 13):
    sys.stderr.write(
        "set-up: CoDA needs Python 3.10 to 3.13, but %s is %d.%d; name another one, for instance: "
        "make PYTHON=python3.12 setup\n" % ((sys.executable,) + tuple(sys.version_info[:2]))
    )
    sys.exit(1)

from coda_setup.main import main

sys.exit(main())
