"""The environment of node processes and the domain of a run."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from coda_nodes.ros.environment import (
    DOMAINS,
    MARK_PORT,
    launch_environment,
    node_environment,
    profiles_file,
    take_domain,
)
from coda_nodes.world.errors import ConfigError


def test_two_runs_get_two_domains_and_a_closed_one_is_free_again():
    with take_domain(env={}) as first, take_domain(env={}) as second:
        assert first.number != second.number
        assert {first.number, second.number} <= set(DOMAINS)
        held = first.number
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", MARK_PORT + held))


def test_a_domain_that_is_named_is_taken_as_it_is():
    assert take_domain(7, env={"ROS_DOMAIN_ID": "8"}).number == 7
    assert take_domain(env={"ROS_DOMAIN_ID": "8"}).number == 8


@pytest.mark.parametrize("bad", ["233", "-1", "one", "1.5"])
def test_an_impossible_domain_is_refused_by_its_value(bad: str):
    with pytest.raises(ConfigError, match=f"'{bad}'.*0 to 232"):
        take_domain(env={"ROS_DOMAIN_ID": bad})


def test_defaults_and_what_the_person_set(tmp_path: Path):
    env = node_environment(tmp_path, 5, base={"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp", "PATH": "/bin"})
    assert env["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert env["RMW_IMPLEMENTATION"] == "rmw_cyclonedds_cpp"
    assert env["ROS_DOMAIN_ID"] == "5"
    assert env["ROS_LOG_DIR"].startswith(str(tmp_path))
    assert env["PATH"] == "/bin"


def test_the_profile_is_left_out_where_shared_memory_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("coda_nodes.ros.environment._shared_memory_free", lambda: 64 * 1024**2)
    assert "FASTDDS_DEFAULT_PROFILES_FILE" not in node_environment(tmp_path, 5, nodes=8, base={})
    assert node_environment(tmp_path, 5, nodes=4, base={})["FASTDDS_DEFAULT_PROFILES_FILE"] == str(
        profiles_file()
    )


def test_the_mark_of_another_environment_is_not_handed_on(tmp_path: Path):
    guard = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
    other = node_environment(tmp_path, 5, base={guard: "1", "LD_LIBRARY_PATH": "/elsewhere/lib"})
    own = node_environment(tmp_path, 5, base={guard: "1", "LD_LIBRARY_PATH": f"/x:{sys.prefix}/lib"})
    assert guard not in other and own[guard] == "1"


def test_launch_sets_only_what_differs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ROS_DOMAIN_ID", "9")
    monkeypatch.setenv("PATH", "/bin")
    changed = launch_environment(str(tmp_path))
    assert "PATH" not in changed and "ROS_DOMAIN_ID" not in changed
    assert launch_environment(str(tmp_path), "11")["ROS_DOMAIN_ID"] == "11"
