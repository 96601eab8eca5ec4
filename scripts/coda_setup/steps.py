"""Doing it: virtual environment, packages, interfaces, and CoDA itself. Each step can be repeated."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from coda_setup.checks import cmake_is_usable
from coda_setup.plan import Place, SourcedRos, lock_lines
from coda_setup.problems import SetupError, explain_build, explain_pip

SHOWN = ("Collecting ", "Downloading ", "Installing ", "[")


def say(text: str) -> None:
    """Tell the person at the terminal."""
    sys.stdout.write(f"set-up: {text}\n")
    sys.stdout.flush()


def child_environment(place: Place, ros: SourcedRos | None) -> dict[str, str]:
    """Return the environment of pip and CMake: the virtual environment is first on every path."""
    env = dict(os.environ, PATH=f"{place.venv / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    for name in ("PYTHONHOME", "VIRTUAL_ENV", "_ROS_WHEELS_BOOTSTRAP_COMPLETE", "PIP_USER", "PIP_TARGET"):
        env.pop(name, None)
    if ros is None:
        env.pop("PYTHONPATH", None)
    prefixes = (str(place.venv), *(ros.prefixes if ros else ()))
    env["AMENT_PREFIX_PATH"] = os.pathsep.join(prefixes)
    others = [part for part in env.get("CMAKE_PREFIX_PATH", "").split(os.pathsep) if part] if ros else []
    env["CMAKE_PREFIX_PATH"] = os.pathsep.join([*prefixes, *others])
    return env


def run_logged(
    command: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    explain: Callable[[str, str], str],
    keep: int = -1,
) -> None:
    """Run a command with its output in the log; raise SetupError with the explained output where it fails.

    `keep` is a descriptor the command inherits (the lock, so that it holds until the last writer is gone).
    """
    printed: list[str] = []
    with log.open("a", encoding="utf-8") as sink:
        sink.write("$ " + " ".join(command) + "\n")
        sink.flush()
        with subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=[keep] if keep >= 0 else [],
        ) as child:
            for line in child.stdout or ():
                printed.append(line)
                sink.write(line)
                show_line(line)
    show_line("")
    if child.returncode:
        raise SetupError(explain("".join(printed), f"all of its output: {log}"))


def show_line(line: str) -> None:
    """Show what goes on, one line over the other, where somebody looks on."""
    if sys.stdout.isatty() and (not line or line.lstrip().startswith(SHOWN)):
        sys.stdout.write("\r\033[K" + line.strip()[:78])
        sys.stdout.flush()


def make_venv(place: Place, python: str, version: str, ros: SourcedRos | None, keep: int) -> None:
    """Make the virtual environment, or keep the one that is there and works."""
    env = child_environment(place, ros)
    if venv_works(place, version, ros, env):
        drop_half_installed(place)
        return
    if place.venv.exists():
        say(f"{place.venv} is of another Python or was left unfinished: it is made anew")
        shutil.rmtree(place.venv)
    place.venv.mkdir(parents=True)
    options = ["--system-site-packages"] if ros else []
    run_logged([python, "-m", "venv", *options, str(place.venv)], env, place.log, explain_venv, keep)


def explain_venv(output: str, log: str) -> str:
    """Return the sentence for a Python that cannot make a virtual environment."""
    if "ensurepip" in output or "No module named venv" in output:
        return "this Python has no venv module: install it, for instance by python3-venv (Debian, Ubuntu)."
    return explain_pip(output, log).replace("pip failed", "the virtual environment could not be made")


def venv_works(place: Place, version: str, ros: SourcedRos | None, env: Mapping[str, str]) -> bool:
    """Tell whether the virtual environment starts, has pip, and is of the wanted version and kind."""
    check = "import sys, pip; print('.'.join(map(str, sys.version_info[:3])))"
    try:
        done = subprocess.run([str(place.python), "-c", check], env=dict(env), capture_output=True, text=True)
        shared = "include-system-site-packages = true" in (place.venv / "pyvenv.cfg").read_text(
            encoding="utf-8"
        )
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version and shared == (ros is not None)


def drop_half_installed(place: Place) -> None:
    """Forget packages whose installation was cut off, so that pip installs them again.

    pip writes RECORD last; metadata without it would count as installed although files are missing.
    """
    for info in place.venv.glob("lib/python3*/site-packages/*.dist-info"):
        if not (info / "RECORD").is_file():
            shutil.rmtree(info)


def install_packages(place: Place, ros: SourcedRos | None, numpy: str, keep: int) -> None:
    """Install what the locks name. `numpy` is the version the sourced ROS 2 was built with, or empty.

    The locks are complete, so nothing is resolved; only torch's own accelerator libraries, which depend on
    the machine and are in no lock, are added by a second call.
    """
    names = ["base", "test"] + (["ros"] if ros is None else [])
    skip = (
        ["numpy"] if numpy.startswith("1.") else []
    )  # interfaces compiled for numpy 1 do not load with numpy 2
    lines = [line for name in names for line in lock_lines(read_lock(place, name), skip)]
    env = child_environment(place, ros)
    if not has_cmake(env):
        lines += lock_lines(read_lock(place, "build"))
    wanted = place.venv / "requirements.txt"
    wanted.write_text("\n".join(dict.fromkeys(lines)) + "\n", encoding="utf-8")
    pip = [
        str(place.python),
        "-m",
        "pip",
        "install",
        "--retries",
        "2",
        "--disable-pip-version-check",
        "--no-input",
    ]
    run_logged([*pip, "--no-deps", "--prefer-binary", "-r", str(wanted)], env, place.log, explain_pip, keep)
    torch = [line for line in lines if line.startswith("torch==")]
    run_logged([*pip, "--prefer-binary", *torch], env, place.log, explain_pip, keep)


def read_lock(place: Place, name: str) -> str:
    """Return the text of a lock file."""
    return (place.requirements / f"{name}.lock").read_text(encoding="utf-8")


def has_cmake(env: Mapping[str, str]) -> bool:
    """Tell whether the machine has a CMake that is new enough."""
    with contextlib.suppress(OSError):
        done = subprocess.run(["cmake", "--version"], env=dict(env), capture_output=True, text=True)
        return done.returncode == 0 and cmake_is_usable(done.stdout)
    return False


def build_interfaces(place: Place, ros: SourcedRos | None, keep: int) -> None:
    """Build coda_interfaces with plain CMake and install it into the virtual environment."""
    env = child_environment(place, ros)
    build = place.venv / "build" / "coda_interfaces"
    manifest = build / "install_manifest.txt"
    before = installed_files(manifest)
    shutil.rmtree(build, ignore_errors=True)
    options = [
        f"-DCMAKE_INSTALL_PREFIX={place.venv}",
        f"-DPython3_EXECUTABLE={place.python}",
        "-DBUILD_TESTING=OFF",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    if ros is None:
        options.append(f"-DCMAKE_PROJECT_INCLUDE={place.root / 'scripts' / 'ros_wheels.cmake'}")
    jobs = str(os.cpu_count() or 1)
    for command in (
        ["cmake", "-S", str(place.interfaces), "-B", str(build), *options],
        ["cmake", "--build", str(build), "--parallel", jobs],
        ["cmake", "--install", str(build)],
    ):
        run_logged(command, env, place.log, explain_build, keep)
    remove_files(before - installed_files(manifest), place.venv)  # a removed definition does not live on


def installed_files(manifest: Path) -> set[Path]:
    """Return the files that a build installed, by its manifest; none where there is none."""
    return (
        {Path(line) for line in manifest.read_text(encoding="utf-8").splitlines()}
        if manifest.is_file()
        else set()
    )


def remove_files(files: Iterable[Path], venv: Path) -> None:
    """Remove those of the files that lie inside the virtual environment."""
    for file in files:
        if venv in file.parents:
            file.unlink(missing_ok=True)


def install_coda(place: Place, ros: SourcedRos | None, keep: int) -> None:
    """Install CoDA itself, editable, and let its environment find its libraries under a sourced ROS 2."""
    env = child_environment(place, ros)
    pip = [str(place.python), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
    run_logged([*pip, "--no-build-isolation", "-e", str(place.root)], env, place.log, explain_pip, keep)
    for packages in place.venv.glob("lib/python3*/site-packages"):
        for name in ("coda_ros_path.py", "coda_ros_path.pth"):
            if ros is not None:
                shutil.copyfile(place.root / "scripts" / name, packages / name)
            else:
                (packages / name).unlink(missing_ok=True)


@contextlib.contextmanager
def only_one(lock: Path) -> Iterator[int]:
    """Wait for another set-up of the same clone to end; yield the descriptor that holds the lock."""
    import fcntl

    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is running here: waiting for it")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield held.fileno()
