"""Documentation that can rot does not: links, named tests, verbs, ranges, names on the wire, versions."""

from __future__ import annotations

import ast
import re
import xml.etree.ElementTree as ElementTree
from functools import lru_cache
from pathlib import Path

import pytest

from coda_nodes import __version__
from coda_nodes.cli.main import VERBS
from coda_nodes.ros import names
from coda_nodes.world.splits import describe

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@lru_cache
def functions_in(path: Path) -> set[str]:
    """Names of the test functions a file defines."""
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def section(page: str, title: str) -> str:
    """Text under a second-level heading."""
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL).group(1)


def braces(text: str) -> list[str]:
    """``/memory/{store,query}`` -> both names."""
    found = re.fullmatch(r"(.*)\{(.*)\}(.*)", text)
    return [found[1] + part + found[3] for part in found[2].split(",")] if found else [text]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not re.match(r"[a-z]+:|#", target):
            assert (page.parent / target.split("#")[0]).exists(), f"{page.name}: {target}"


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            links = [link for link in LINK.findall(page.read_text()) if not re.match(r"[a-z]+:|#", link)]
            waiting += [page.parent / link.split("#")[0] for link in links]
    assert {page for page in PAGES if page.resolve() not in reached} == set()


def test_every_fault_of_the_field_is_there_with_a_test_or_a_reason() -> None:
    rows = [line.split("|")[1:-1] for line in (ROOT / "docs/field.md").read_text().splitlines() if re.match(r"\| \d", line)]
    assert [int(row[0]) for row in rows] == list(range(1, 31))
    for number, _, behaviour, covered in rows:
        tests = TEST.findall(covered)
        assert tests or "cannot occur yet:" in behaviour or "not in this version:" in behaviour, f"row {number}"
        assert len(tests) == covered.count("::"), f"row {number}: not every test is written as `tests/...::name`"
        for path, name in tests:
            assert name in functions_in(ROOT / path), f"row {number}: {path}::{name}"


def test_every_verb_of_the_readme_exists() -> None:
    page = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    used = {verb for code in re.findall(r"`([^`]+)`", page) for verb in re.findall(r"\bcoda ([a-z][\w-]*)", code)}
    assert {"train", "evaluate"} <= used <= set(VERBS)


def test_every_verb_has_its_file() -> None:
    for verb in VERBS:
        assert "run" in functions_in(ROOT / "coda_nodes" / "cli" / f"{verb.replace('-', '_')}.py")


def test_the_ranges_are_those_of_the_splits() -> None:
    _, ranges = (ROOT / "docs/splits.md").read_text().split("# Ranges\n", 1)
    assert ranges.strip() == describe().strip()


def test_the_names_on_the_wire_are_those_the_nodes_use() -> None:
    constants = {value for key, value in vars(names).items() if key.isupper() and value.startswith("/")}
    agreed = constants | {names.camera_image("<name>"), names.camera_info("<name>")}
    quoted = re.findall(r"`(/[^`]+)`", section("docs/architecture.md", "Names on the wire"))
    assert {name for text in quoted for name in braces(text)} == agreed


def test_continuous_integration_runs_the_commands_of_the_readme() -> None:
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(), re.MULTILINE)
    script = (ROOT / ".ci" / "run").read_text()
    assert commands == ["make train", "make test"] and all(command in script for command in commands)


def test_versions_agree() -> None:
    stated = {
        "package.xml": ElementTree.parse(ROOT / "package.xml").findtext("version"),
        "coda_interfaces": ElementTree.parse(ROOT / "ros2_ws/src/coda_interfaces/package.xml").findtext("version"),
        "setup.py": re.search(r'version="([^"]+)"', (ROOT / "setup.py").read_text())[1],
        "CHANGELOG.md": re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1],
    }
    assert set(stated.values()) == {__version__}, stated
