"""``coda critic data``: the vision-language critic's data; its training and evaluation are not in this version."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from coda_nodes.world.errors import ConfigError, NotAvailableError, unknown

ACTIONS = {
    "data": "labelled failures and successes with pictures",
    "train": "(not in this version) the small model of our own, on such data",
    "evaluate": "(not in this version) a vision-language critic on such data",
}


def run(words: Sequence[str]) -> int:
    """Run one action. Raises NotAvailableError for those that are not there."""
    if words and words[0] in ("-h", "--help"):
        for name, text in ACTIONS.items():
            Console().print(f"coda critic {name:<9} {text}", highlight=False, markup=False)
        return 0
    if not words or words[0] not in ACTIONS:
        raise ConfigError(unknown("action of coda critic", words[0] if words else "", ACTIONS))
    if words[0] != "data":
        raise NotAvailableError(f"coda critic {words[0]}: our own vision-language critic is not part of this version")
    from coda_nodes.cli.critic_data import run as make

    return make(words[1:])
