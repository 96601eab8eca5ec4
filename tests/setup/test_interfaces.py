"""Interface definitions: the names that are agreed, and a comment at every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "ros2_ws" / "src" / "coda_interfaces"
FILES = sorted(path for kind in ("msg", "srv", "action") for path in (FOLDER / kind).iterdir())


def test_every_definition_is_built():
    text = (FOLDER / "CMakeLists.txt").read_text()
    assert [path for path in FILES if f'"{path.relative_to(FOLDER)}"' not in text] == []
    assert text.count('.msg"') + text.count('.srv"') + text.count('.action"') == len(FILES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_field_has_a_comment_before_it(file: Path):
    before = ""
    for line in file.read_text().splitlines():
        if line.strip() and not line.startswith(("#", "---")):
            assert before.startswith("#") and len(before) > 10, f"{file.name}: no comment before {line!r}"
        before = line


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_numbers_with_a_unit_name_it(file: Path):
    comment = ""
    for line in file.read_text().splitlines():
        if line.startswith("#"):
            comment += line
        elif line.strip():
            name = line.split()[-1]
            if re.fullmatch(r"seconds\w*|period|time_limit|(\w+_)?pose(_base)?|size|joint_value|noise", name):
                assert "[" in comment, f"{file.name}: {name} has no unit"
            comment = ""
