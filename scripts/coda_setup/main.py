"""The set-up as a whole: look, decide, do what is not done yet, record each step."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from coda_setup import checks, steps
from coda_setup.plan import TRIED_WITH, Place, SourcedRos, find_ros, read_stamp, step_keys, write_stamp
from coda_setup.problems import DISK_FULL, SetupError, disk_full
from coda_setup.steps import say


def main() -> int:
    """Set up and return the exit status; every failure is one sentence on standard error."""
    started = time.monotonic()
    place = parse_arguments()
    try:
        if set_up(place):
            say(f"done in {time.monotonic() - started:.0f} s")
        return 0
    except SetupError as error:
        sentence = str(error)
    except OSError as error:
        where = error.filename or place.venv
        full = DISK_FULL.search(str(error))
        sentence = disk_full("in the middle") if full else f"{error.strerror or error}: {where}"
    except KeyboardInterrupt:
        sys.stderr.write("\nset-up: interrupted; run make again, it continues where it stopped.\n")
        return 130
    sys.stderr.write(f"set-up: {sentence}\n")
    return 1


def parse_arguments() -> Place:
    """Return the place named on the command line."""
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(prog="bootstrap.py", description="Set up CoDA in a virtual environment.")
    parser.add_argument("--venv", default=".venv", help="folder of the virtual environment (default: .venv)")
    return Place(root, (root / parser.parse_args().venv).absolute())


def set_up(place: Place) -> bool:
    """Do the steps that are not done; return whether there were any."""
    ros = sourced_ros(place)
    version, keys, done = wanted(place, ros)
    if all(done.get(step) == key for step, key in keys.items()):
        return False
    checks.check_writable(place.root)
    with steps.only_one(place.root / f"{place.venv.name}.lock") as keep:
        return do_steps(place, ros, version, keep)


def do_steps(place: Place, ros: SourcedRos | None, version: str, keep: int) -> bool:
    """Do what is missing, recording each step when it is done (another set-up may just have done it)."""
    _, keys, done = wanted(place, ros)
    todo = [step for step, key in keys.items() if done.get(step) != key]
    if not todo:
        return False
    look_at_machine(place, todo)
    describe(place, ros, version)
    if "packages" in todo:
        timed("virtual environment", lambda: steps.make_venv(place, base_python(ros), version, ros, keep))
        numpy = distribution_numpy(ros)
        timed("packages (the long part)", lambda: steps.install_packages(place, ros, numpy, keep))
        done = {"python": version, "packages": keys["packages"]}
        write_stamp(place.venv, done)
    if "interfaces" in todo:
        timed("interfaces, compiled", lambda: steps.build_interfaces(place, ros, keep))
        done["interfaces"] = keys["interfaces"]
        write_stamp(place.venv, done)
    if "package" in todo:
        timed("CoDA itself", lambda: steps.install_coda(place, ros, keep))
        done["package"] = keys["package"]
        write_stamp(place.venv, done)
    return True


def wanted(place: Place, ros: SourcedRos | None) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return the Python version to use, the keys of the steps with it, and what is done.

    A finished environment keeps its Python, whatever ``python3`` has become, unless PYTHON names one.
    """
    done = read_stamp(place.venv) if place.python.exists() else {}
    version = version_of(base_python(ros))
    if not os.environ.get("PYTHON") and ros is None:
        version = done.get("python", version)
    return version, step_keys(place, version, ros), done


def sourced_ros(place: Place) -> SourcedRos | None:
    """Return the ROS 2 sourced in this shell, if any."""
    pythons = dict.fromkeys([sys.executable, "/usr/bin/python3"])
    return find_ros(os.environ, pythons, imports_rclpy, str(place.venv))


def imports_rclpy(python: str) -> bool:
    """Tell whether a Python imports rclpy in the environment of this shell."""
    try:
        return subprocess.run([python, "-c", "import rclpy"], capture_output=True).returncode == 0
    except OSError:
        return False


def base_python(ros: SourcedRos | None) -> str:
    """Return the Python that the virtual environment is made from."""
    return sys.executable if ros is None else ros.python


def version_of(python: str) -> str:
    """Return the version of a Python, for instance 3.12.3."""
    if python == sys.executable:
        return ".".join(map(str, sys.version_info[:3]))
    check = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    return subprocess.run([python, "-c", check], capture_output=True, text=True).stdout.strip()


def distribution_numpy(ros: SourcedRos | None) -> str:
    """Return the version of numpy that the sourced ROS 2 uses, or nothing."""
    if ros is None:
        return ""
    check = "import numpy; print(numpy.__version__)"
    return subprocess.run([ros.python, "-c", check], capture_output=True, text=True).stdout.strip()


def look_at_machine(place: Place, todo: list[str]) -> None:
    """Raise SetupError for what is missing, before anything is written."""
    if "interfaces" in todo:
        checks.find_compiler(os.environ)
        checks.check_headers()
    if "packages" in todo:
        checks.check_disk(place.venv)


def describe(place: Place, ros: SourcedRos | None, version: str) -> None:
    """Say which ROS 2 and Python are used."""
    if ros is None:
        say(f"ROS 2 Kilted from wheels, Python {version}, into {place.venv}")
        return
    untried = "" if ros.distribution in TRIED_WITH else f" (CoDA is made for {' and '.join(TRIED_WITH)})"
    say(f"using the sourced ROS 2 {ros.distribution}{untried}, Python {version}, into {place.venv}")


def timed(name: str, action: object) -> None:
    """Do a step and say how long it took."""
    say(f"{name} ...")
    started = time.monotonic()
    action()  # type: ignore[operator]
    say(f"{name}: {time.monotonic() - started:.0f} s")
