"""Entry of a node process: `python -m coda_nodes.ros.child MODULE [arguments]` runs the module's main()."""

from __future__ import annotations

import faulthandler
import importlib
import sys

from coda_nodes.ros.lifetime import follow_parent


def main() -> int:
    """Follow the parent, then run the node; return its exit status."""
    follow_parent()
    faulthandler.enable()  # a crash in native code leaves a trace in the node's log
    module = sys.argv[1]
    sys.argv = [module, *sys.argv[2:]]
    return importlib.import_module(module).main() or 0


if __name__ == "__main__":
    sys.exit(main())
