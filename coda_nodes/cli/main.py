"""The ``coda`` command: one verb per file, errors told once in a sentence."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from coda_nodes.world.errors import CodaError, NotAvailableError, unknown

VERBS = {
    "train": "co-evolve environments and a policy",
    "evaluate": "measure a checkpoint on environments",
    "generate": "sample valid environments of a family, split and axis",
    "render": "draw environments as a contact sheet",
    "critique": "diagnose a recorded failure",
    "critic": "data, training and evaluation of the vision-language critic",
    "benchmark": "throughput, coevolution, libero-pro",
    "memory": "show, search, export, import the memory of a run",
    "export-sdf": "write an environment as an SDF world for Gazebo",
    "report": "rebuild the report page of a run",
    "deploy": "run a checkpoint on an arm",
    "results": "check benchmark results against their schema",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb. Returns 0, 1 for an error told in a sentence, 2 for wrong usage or a part not available."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    errors = Console(stderr=True, soft_wrap=True)
    if not words or words[0] in ("-h", "--help"):
        _usage(Console())
        return 0
    if words[0] not in VERBS:
        _tell(errors, unknown("verb", words[0], VERBS))
        return 2
    try:
        return _verb(words[0])(words[1:]) or 0
    except CodaError as error:
        if debug:
            raise
        _tell(errors, str(error))
        return 2 if isinstance(error, NotAvailableError) else 1
    except OSError as error:
        if debug:
            raise
        _tell(errors, f"{error.filename or 'operating system'}: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        errors.print("interrupted; the same command continues from the last finished step")
        return 130


def _tell(console: Console, sentence: str) -> None:
    """Print an error; what stands in brackets in it is text, not markup."""
    console.print(f"[red]error:[/red] {escape(sentence)}", highlight=False)


def _verb(name: str):
    return importlib.import_module(f"coda_nodes.cli.{name.replace('-', '_')}").run


def _usage(console: Console) -> None:
    console.print("coda VERB [options]   (coda VERB --help lists the options; --debug shows tracebacks)\n", markup=False)
    for name, text in VERBS.items():
        console.print(f"  [bold]{name:<12}[/bold] {text}")


if __name__ == "__main__":
    sys.exit(main())
