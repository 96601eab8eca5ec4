"""Exported worlds: what the file says, by the standard XML parser, by the real SDFormat parser, and by the command."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from coda_nodes.cli.main import main
from coda_nodes.simulator.gazebo.bridge import bridge_yaml
from coda_nodes.simulator.gazebo.worlds import (
    WorldConfig,
    camera_pose,
    empty_world,
    export_world,
    horizontal_view,
    scene_documents,
)
from coda_nodes.world.errors import ConfigError, SpecError
from coda_nodes.world.robots import PANDA
from coda_nodes.world.spec import FAMILIES, CameraSpec, EnvironmentSpec, write_specs


def world_of(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text).find("world")


def test_the_same_specification_gives_the_same_bytes(scenes) -> None:
    for spec in (spec for group in scenes.values() for spec in group):
        assert export_world(spec) == export_world(spec.revise())


@pytest.mark.parametrize("family", FAMILIES)
def test_everything_of_the_specification_is_in_the_world(scenes, family: str) -> None:
    for spec in scenes[family]:
        world = world_of(export_world(spec))
        names = [model.get("name") for model in world.findall("model")]
        assert names[:3] == ["table", "floor", "panda"] and len(set(names)) == len(names)
        assert names[3:] == [name.replace(" ", "_") for name in spec.entity_names] + ["camera_front"]
        assert float(world.findtext("physics/max_step_size")) == 0.001
        assert [float(part) for part in world.findtext("gravity").split()] == [0, 0, -spec.physics.gravity]
        for entity in spec.objects:
            model = world.find(f"model[@name='{entity.name.replace(' ', '_')}']")
            assert (model.findtext("static") == "true") == (entity.role in ("receptacle", "marker"))
            collisions = model.findall("link/collision")
            assert bool(collisions) == (entity.shape != "marker")
            for part in collisions:
                friction = float(part.findtext("surface/friction/ode/mu"))
                assert friction == pytest.approx(entity.friction * spec.physics.friction_scale, rel=1e-9)


@pytest.mark.parametrize(
    ("release", "file", "kind", "message"),
    [
        ("harmonic", "gz-sim-joint-trajectory-controller-system", "gz::sim::systems::JointTrajectoryController", "gz.msgs."),
        (
            "fortress",
            "ignition-gazebo-joint-trajectory-controller-system",
            "ignition::gazebo::systems::JointTrajectoryController",
            "ignition.msgs.",
        ),
    ],
)
def test_plugins_are_named_for_the_release(scenes, release: str, file: str, kind: str, message: str) -> None:
    config = WorldConfig(release=release)
    plugins = list(world_of(export_world(scenes["stack"][0], config)).iter("plugin"))
    assert (file, kind) in [(plugin.get("filename"), plugin.get("name")) for plugin in plugins]
    prefix = file.split("joint")[0]
    assert all(plugin.get("filename").startswith(prefix) for plugin in plugins)
    systems = {plugin.get("name").split("::")[-1] for plugin in plugins}
    assert {"Physics", "UserCommands", "SceneBroadcaster", "Sensors", "JointStatePublisher"} <= systems
    entries = yaml.safe_load(bridge_yaml("panda", ["front"], release))
    assert all(entry["gz_type_name"].startswith(message) for entry in entries)


def test_an_unknown_release_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="no Gazebo release 'dome': harmonic, fortress"):
        WorldConfig(release="dome")


def test_names_that_collide_as_models_are_refused(scenes) -> None:
    spec = scenes["pick_place"][0]
    twin = spec.objects[0].model_copy(update={"name": "panda"})
    with pytest.raises(SpecError, match="panda"):
        export_world(spec.revise(objects=(*spec.objects[:4], twin)))


def test_the_bridge_carries_every_topic_the_world_names(scenes) -> None:
    """Topics of plugins and cameras are bridged, and in the direction in which their plugin needs them."""
    spec = scenes["articulated"][0]
    entries = {entry["gz_topic_name"]: entry for entry in yaml.safe_load(bridge_yaml(spec.robot, ["front"]))}
    named = {topic.text for topic in world_of(export_world(spec)).iter("topic")}
    assert named and named <= set(entries)
    commands = [topic for topic, entry in entries.items() if entry["direction"] == "ROS_TO_GZ"]
    assert commands == ["/model/panda/joint_trajectory"]


def test_a_camera_looks_where_the_specification_says() -> None:
    camera = CameraSpec(name="side", position=(0.2, -1.0, 0.8), look_at=(0.5, 0.1, 0.0), fov_y=40.0)
    pose = camera_pose(camera)
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, np.roll(pose.quaternion_xyzw, 1))
    forward, left, up = rotation.reshape(3, 3).T
    way = np.array(camera.look_at) - camera.position
    assert np.allclose(forward, way / np.linalg.norm(way)) and abs(left[2]) < 1e-12 and up[2] > 0
    width = horizontal_view(camera, 160, 120)
    assert np.tan(width / 2) == pytest.approx(np.tan(np.radians(20)) * 160 / 120)


def test_the_command_writes_a_world_and_its_bridge_per_line(scenes, tmp_path: Path, capsys) -> None:
    specs = [group[0] for group in scenes.values()]
    write_specs(tmp_path / "scenes.jsonl", specs)
    words = ["export-sdf", str(tmp_path / "scenes.jsonl"), "--out", str(tmp_path / "worlds")]
    assert main([*words, "--gazebo", "fortress"]) == 0
    assert "wrote 4 worlds" in capsys.readouterr().out
    for number, spec in enumerate(specs):
        stem = tmp_path / "worlds" / f"{number:03d}_{spec.family}_{spec.content_hash}"
        assert stem.with_suffix(".sdf").read_text() == export_world(spec, WorldConfig(release="fortress"))
        assert yaml.safe_load(stem.with_suffix(".bridge.yaml").read_text())
    assert main([*words, "--gazebo", "classic"]) == 1
    assert "harmonic, fortress" in capsys.readouterr().err


def parse_with_ignition(path: Path) -> str:
    """What the real parser complains about; it can end with status 0 although it does."""
    done = subprocess.run(["ign", "sdf", "-k", str(path)], capture_output=True, text=True, timeout=60, check=False)
    if "cannot find any available" in done.stdout + done.stderr:
        pytest.skip("`ign` has no `sdf` command here: install libsdformat-dev (Debian, Ubuntu)")
    faults = [line for line in done.stderr.splitlines() if "Error" in line]
    assert "Valid." in done.stdout or faults, done.stdout + done.stderr
    return "\n".join(faults)


@pytest.fixture
def ignition() -> None:
    """The real SDFormat parser."""
    if shutil.which("ign") is None:
        pytest.skip("no `ign` here: install ignition-tools, sdformat-sdf and libsdformat-dev (Debian, Ubuntu)")


@pytest.mark.parametrize("release", ["harmonic", "fortress"])
def test_the_real_parser_takes_every_world(ignition, scenes, tmp_path: Path, release: str) -> None:
    config = WorldConfig(release=release)
    texts = [export_world(group[number], config) for group in scenes.values() for number in range(2)]
    if release == "fortress":
        texts = [texts[0], empty_world(config), *scene_documents(scenes["articulated"][0], config).values()]
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.sdf"
        path.write_text(text)
        assert parse_with_ignition(path) == ""


def test_the_real_parser_finds_what_is_wrong(ignition, scenes, tmp_path: Path) -> None:
    path = tmp_path / "wrong.sdf"
    path.write_text(export_world(scenes["stack"][0]).replace("<parent>link0</parent>", "<parent>link9</parent>"))
    assert "link9" in parse_with_ignition(path)


def limits(spec: EnvironmentSpec) -> dict[str, tuple[float, float]]:
    """Joint limits of the arm as the world states them, with the start added again."""
    world = world_of(export_world(spec))
    starts = dict(zip(PANDA.joint_names, spec.robot_start.joint_positions, strict=True))
    axes = {name: world.find(f"model[@name='panda']/joint[@name='{name}']/axis/limit") for name in starts}
    return {name: tuple(float(axes[name].findtext(side)) + starts[name] for side in ("lower", "upper")) for name in starts}


def test_limits_count_from_the_start(scenes) -> None:
    for spec in scenes["stack"]:
        found = np.array(list(limits(spec).values()))
        assert np.allclose(found, np.stack([PANDA.lower, PANDA.upper], axis=1), atol=1e-8)
