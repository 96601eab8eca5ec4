"""Instruction templates: which phrasings exist, and sentences made from them.

Which split uses which phrasing stands in ``splits.yaml`` (axis instruction, parameter phrasing); no
phrasing is shared
between splits. ``{in}`` becomes in or on, ``{into}`` into or onto, as the target asks.
"""

from __future__ import annotations

from collections.abc import Sequence

from coda_nodes.world.errors import ConfigError, unknown

TEMPLATES: dict[str, dict[str, str]] = {
    "pick_place": {
        "put": "put the {object} {in} the {target}",
        "place": "place the {object} {in} the {target}",
        "move": "move the {object} {into} the {target}",
        "set_down": "set the {object} down {in} the {target}",
        "goes": "the {object} goes {in} the {target}",
        "bring": "bring the {object} over and leave it {in} the {target}",
        "deposit": "deposit the {object} {in} the {target}",
        "transfer": "transfer the {object} {into} the {target}",
        "needs": "the {object} needs to be {in} the {target}",
        "belongs": "{in} the {target} is where the {object} belongs",
        "let_go": "pick up the {object} and let it go {in} the {target}",
        "end_up": "have the {target} end up with the {object} {in} it",
    },
    "stack": {
        "stack": "stack the {object} on the {target}",
        "on_top": "put the {object} on top of the {target}",
        "place": "place the {object} on the {target}",
        "set": "set the {object} onto the {target}",
        "goes": "the {object} goes on the {target}",
        "rest": "rest the {object} on top of the {target}",
        "carry": "let the {target} carry the {object}",
        "pile": "pile the {object} onto the {target}",
        "lay": "lay the {object} on top of the {target}",
        "under": "under the {object} there should be the {target}",
        "support": "have the {target} support the {object}",
        "where": "on the {target} is where the {object} goes",
    },
}
"""Family -> phrasing -> clause for one step."""


def clause(family: str, phrasing: str, **names: str) -> str:
    """One step in words; ``names`` fill the template (``object``, ``target``, ...).

    Raises:
        ConfigError: unknown phrasing (the message lists those of the family), or a name the template needs
        is missing.
    """
    templates = TEMPLATES.get(family, {})
    if phrasing not in templates:
        raise ConfigError(unknown(f"phrasing of {family}", phrasing, templates))
    on = names.get("target", "").endswith("plate")
    words = {"in": "on" if on else "in", "into": "onto" if on else "into", **names}
    try:
        return templates[phrasing].format(**words)
    except KeyError as error:
        raise ConfigError(
            f"phrasing {phrasing!r} of {family} needs {error}, got {', '.join(names)}"
        ) from None


def sentence(clauses: Sequence[str]) -> str:
    """Join the steps: the first, then the second."""
    return ", then ".join(clauses)


def find_phrasing(family: str, instruction: str, parts: Sequence[dict[str, str]]) -> str | None:
    """Phrasing whose sentence for ``parts`` (the names of each step) is ``instruction``;
    None if there is none."""
    for phrasing in TEMPLATES.get(family, {}):
        try:
            if sentence([clause(family, phrasing, **names) for names in parts]) == instruction:
                return phrasing
        except ConfigError:
            continue
    return None
