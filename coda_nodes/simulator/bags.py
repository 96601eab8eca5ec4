"""Episodes as rosbag2 folders (MCAP and metadata.yaml) that hold what the nodes would have published."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer, WriterError

from coda_nodes.world import topics
from coda_nodes.world.action import CONTROL_PERIOD
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.bag_types import CAMERA_INFO, IMAGE, TYPES, typestore
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.episode_texts import EpisodeRecord, truth_of
from coda_nodes.world.errors import ArtifactError
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import CameraSpec, ObjectSpec

Picture = NDArray[np.uint8]
Pictures = Callable[[Episode, int], Sequence[tuple[CameraSpec, Picture]]]
"""Draws a chunk boundary of an episode: pictures (H, W, 3) rgb, first row on top."""
START = round(CONTROL_PERIOD * 1e9)
"""Time of the reset [ns]: never 0, which means "no time yet"."""
FORMAT = 9
"""Version of metadata.yaml, read by Jazzy and later."""
LATCHED_TOPICS = (topics.ENVIRONMENT, topics.INSTRUCTION)
_FOREVER = QosTime(9223372036, 854775807)


def write_bag(episode: Episode, folder: Path, pictures: Pictures | None = None) -> Path:
    """Write an episode as a bag; a folder that is there already is left as it is. Returns the folder.

    The bag holds /clock, joint states, objects, instruction, episode events and action chunks at every chunk
    boundary, the specification, and the truth from which a critic gives the same diagnosis as from the episode
    itself. No trajectory is in it: a replay moves no arm.

    Raises ArtifactError when the disk refuses; nothing half-written stays under ``folder``.
    """
    if folder.exists():
        return folder
    partial = folder.parent / f".{folder.name}.{os.getpid()}.part"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        with Writer(partial / folder.name, version=FORMAT, storage_plugin=StoragePlugin.MCAP) as writer:
            _Tape(writer, episode).write(pictures)
        os.replace(partial / folder.name, folder)
    except (OSError, WriterError) as error:
        raise ArtifactError(f"cannot write {folder}: {getattr(error, 'strerror', '') or error}") from error
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(partial)
    return folder


def write_failure_bags(root: ArtifactRoot, ended: Sequence[EpisodeSummary], most: int) -> list[str]:
    """Write at most ``most`` of the failures as bags below ``root``, of each family in turn; return their hashes.

    Raises ArtifactError when an episode is missing or the disk refuses.
    """
    failures: dict[str, list[str]] = {}
    for summary in ended:
        if summary.outcome == "failure":
            failures.setdefault(summary.family, []).append(summary.hash)
    in_turn = [key for row in zip_longest(*failures.values()) for key in row if key is not None][:most]
    for key in in_turn:
        write_bag(Episode.load(root.episode(key)), root.bag(key))
    return in_turn


class _Tape:
    """Writes the messages of one episode in order of time."""

    def __init__(self, writer: Writer, episode: Episode) -> None:
        self._writer, self._episode = writer, episode
        self._robot = robot(episode.spec.robot)
        self._store = typestore()
        self._types = self._store.types
        self._connections: dict[str, Any] = {}
        self._steps = np.concatenate([[0], np.cumsum(episode.executed)]).astype(int)

    def write(self, pictures: Pictures | None) -> None:
        """Write everything."""
        spec, last = self._episode.spec, len(self._steps) - 1
        self._put(topics.ENVIRONMENT, START, self._string(spec.to_json()))
        self._put(topics.INSTRUCTION, START, self._string(spec.instruction))
        self._put(topics.EPISODE_EVENT, START, self._event("RESET", 0, ""))
        for boundary in range(last + 1):
            self._write_boundary(boundary, pictures)
        kind = {"success": "SUCCESS", "failure": "TIMEOUT", "invalid": "INVALID"}[self._episode.outcome]
        self._put(topics.EPISODE_EVENT, self._time(last), self._event(kind, last, self._episode.content_hash))

    def _write_boundary(self, boundary: int, pictures: Pictures | None) -> None:
        episode, stamp = self._episode, self._time(boundary)
        clock = self._make("rosgraph_msgs/msg/Clock", clock=self._stamp(stamp))
        self._put(topics.CLOCK, stamp, clock)
        self._put(topics.JOINT_STATES, stamp, self._joints(boundary, stamp))
        self._put(topics.OBJECTS, stamp, self._objects(boundary, stamp))
        self._put(topics.TRUTH, stamp, self._string(self._truth(boundary, stamp)))
        for camera, picture in pictures(episode, boundary) if pictures else ():
            self._put_picture(camera, picture, stamp)
        if boundary < len(episode.chunks):
            chunk = episode.chunks[boundary]
            message = self._make(
                TYPES[topics.ACTION_CHUNK], header=self._header(stamp), steps=len(chunk), period=CONTROL_PERIOD,
                data=np.ascontiguousarray(chunk, dtype=np.float64).ravel(),
            )
            self._put(topics.ACTION_CHUNK, stamp, message)

    def _time(self, boundary: int) -> int:
        """[ns]"""
        return START + round(int(self._steps[boundary]) * CONTROL_PERIOD * 1e9)

    def _truth(self, boundary: int, stamp: int) -> str:
        episode, done = self._episode, int(self._steps[boundary])
        before = int(self._steps[boundary - 1]) if boundary else 0
        return truth_of(
            episode.spec.content_hash, episode.states, done, stamp, episode.predicates[before:done],
            chunk=episode.chunks[boundary - 1] if boundary else None,
            record=None if boundary else EpisodeRecord.of(episode), row=boundary,
        ).to_text()

    def _joints(self, boundary: int, stamp: int) -> Any:
        states, arm = self._episode.states, self._robot
        fingers = [float(arm.gripper_command(states.gripper_opening[boundary]))] * len(arm.finger_joints)
        nothing = np.zeros(0)
        return self._make(
            TYPES[topics.JOINT_STATES], header=self._header(stamp), name=[*arm.joint_names, *arm.finger_joints],
            position=np.array([*states.joint_positions[boundary], *fingers]), velocity=nothing, effort=nothing,
        )

    def _objects(self, boundary: int, stamp: int) -> Any:
        states, entities = self._episode.states, self._episode.spec.entities
        rows = [self._object(entity, states, boundary, slot) for slot, entity in enumerate(entities)]
        return self._make(TYPES[topics.OBJECTS], header=self._header(stamp), objects=rows)

    def _object(self, entity: Any, states: Any, row: int, slot: int) -> Any:
        thing = isinstance(entity, ObjectSpec)
        make, low_high = self._make, states.entity_joint_range[row, slot].astype(np.float64)
        x, y, z = map(float, states.entity_position_base[row, slot])
        qx, qy, qz, qw = map(float, states.entity_quaternion_xyzw[row, slot])
        hx, hy, hz = map(float, states.entity_half_extents[row, slot])
        return make(
            "coda_interfaces/msg/ObjectState", name=entity.name, category=entity.shape if thing else entity.kind,
            role=entity.role if thing else "fixture",
            pose=make(
                "geometry_msgs/msg/Pose", position=make("geometry_msgs/msg/Point", x=x, y=y, z=z),
                orientation=make("geometry_msgs/msg/Quaternion", x=qx, y=qy, z=qz, w=qw),
            ),
            size=make("geometry_msgs/msg/Vector3", x=hx, y=hy, z=hz), has_joint=bool(low_high[0] != low_high[1]),
            joint_value=float(states.entity_joint_value[row, slot]), joint_range=low_high,
        )

    def _event(self, kind: str, boundary: int, key: str) -> Any:
        event = self._types[TYPES[topics.EPISODE_EVENT]]
        return event(
            header=self._header(self._time(boundary)), run_id="", environment_hash=self._episode.spec.content_hash,
            episode_hash=key, kind=getattr(event, kind), detail=self._episode.reason if key else "",
            step=int(self._steps[boundary]),
        )

    def _put_picture(self, camera: CameraSpec, picture: Picture, stamp: int) -> None:
        height, width, _ = picture.shape
        header = self._header(stamp, topics.camera_frame(camera.name))
        image = self._make(
            IMAGE, header=header, height=height, width=width, encoding="rgb8", is_bigendian=0, step=3 * width,
            data=np.ascontiguousarray(picture).ravel(),
        )
        self._put(topics.camera_image(camera.name), stamp, image, IMAGE)
        k, p = camera.intrinsics(width, height)
        region = self._make(
            "sensor_msgs/msg/RegionOfInterest", x_offset=0, y_offset=0, height=0, width=0, do_rectify=False
        )
        info = self._make(
            CAMERA_INFO, header=header, height=height, width=width, distortion_model="plumb_bob", d=np.zeros(5),
            k=k.ravel(), r=np.eye(3).ravel(), p=p.ravel(), binning_x=0, binning_y=0, roi=region,
        )
        self._put(topics.camera_info(camera.name), stamp, info, CAMERA_INFO)

    def _make(self, kind: str, **values: Any) -> Any:
        return self._types[kind](**values)

    def _string(self, text: str) -> Any:
        return self._make("std_msgs/msg/String", data=text)

    def _stamp(self, nanoseconds: int) -> Any:
        seconds, rest = divmod(nanoseconds, 1_000_000_000)
        return self._make("builtin_interfaces/msg/Time", sec=seconds, nanosec=rest)

    def _header(self, nanoseconds: int, frame: str = topics.BASE_FRAME) -> Any:
        return self._make("std_msgs/msg/Header", stamp=self._stamp(nanoseconds), frame_id=frame)

    def _put(self, topic: str, stamp: int, message: Any, kind: str = "") -> None:
        kind = kind or TYPES[topic]
        if topic not in self._connections:
            self._connections[topic] = self._writer.add_connection(
                topic, kind, typestore=self._store, offered_qos_profiles=[_quality(topic in LATCHED_TOPICS)]
            )
        self._writer.write(self._connections[topic], stamp, self._store.serialize_cdr(message, kind))


def _quality(latched: bool) -> Qos:
    """Reliable, so that a replay loses nothing; latched topics stay latched."""
    return Qos(
        QosHistory.KEEP_LAST, 1 if latched else 1000, QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE, _FOREVER, _FOREVER,
        QosLiveliness.AUTOMATIC, _FOREVER, False,
    )
