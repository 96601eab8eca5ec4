"""The ament_python package coda_nodes."""

from pathlib import Path

from setuptools import find_packages, setup

PACKAGE = "coda_nodes"
NODES = ("generator", "simulator", "critic", "memory", "learner", "executor", "conductor")


def shared(folder: str) -> list[tuple[str, list[str]]]:
    """Return the entries that install a folder and those below it under share/coda_nodes."""
    here = Path(__file__).parent
    folders = [here / folder, *(path for path in sorted((here / folder).rglob("*")) if path.is_dir())]
    entries = []
    for path in folders:
        files = [str(file.relative_to(here)) for file in sorted(path.glob("*")) if file.is_file()]
        if files and path.name != "__pycache__":
            entries.append((f"share/{PACKAGE}/{path.relative_to(here)}", files))
    return entries


setup(
    name=PACKAGE,
    version="0.1.0",
    description="CoDA: environments and a robot policy that evolve together, as ROS 2 nodes.",
    license="Apache-2.0",
    maintainer="The CoDA authors",
    maintainer_email="coda@example.org",
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=[PACKAGE, f"{PACKAGE}.*"]),
    include_package_data=True,
    package_data={
        PACKAGE: [
            "**/*.json",
            "**/*.yaml",
            "**/*.html",
            "**/*.md",
            "**/*.lark",
            "**/*.css",
            "**/*.js",
            "**/*.j2",
            "**/*.xml",
        ]
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        *(entry for folder in ("launch", "config", "models") for entry in shared(folder)),
    ],
    zip_safe=False,
    extras_require={"test": ["pytest"]},
    entry_points={
        "console_scripts": [
            "coda = coda_nodes.cli.main:main",
            *(f"{node} = {PACKAGE}.{node}.node:main" for node in NODES),
        ]
    },
)
