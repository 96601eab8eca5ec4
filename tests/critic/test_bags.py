"""Bags: what is written is a whole rosbag2, what is read gives the diagnosis of the episode, whatever was done to it."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import CompressionFormat, CompressionMode, Reader, StoragePlugin, Writer

from coda_nodes.critic import StateCritic
from coda_nodes.critic.bag_critique import episodes_in
from coda_nodes.critic.bag_reading import read_bag
from coda_nodes.simulator.bags import write_bag, write_failure_bags
from coda_nodes.world import topics
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.bag_types import typestore
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.errors import ArtifactError, CodaError, DiagnosisError, MessageError
from coda_nodes.world.predicates import CompiledGoals

RECORDED = Path(os.environ.get("CODA_RECORDED_BAGS", "/nonexistent"))
Row = tuple[str, str, int, bytes]
"""Topic, type, time of recording [ns], CDR."""
STORE = typestore()


def rows_of(bag: Path) -> list[Row]:
    with Reader(bag) as reader:
        return [(c.topic, c.msgtype, time, bytes(data)) for c, time, data in reader.messages()]


def rewrite(
    bag: Path, folder: Path, rows: Iterable[Row], storage: StoragePlugin = StoragePlugin.MCAP, compressed: bool = False
) -> Path:
    """Another bag of these messages."""
    writer = Writer(folder, version=9, storage_plugin=storage)
    if compressed:
        writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    connections: dict[str, Any] = {}
    with writer:
        for topic, kind, time, data in rows:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=STORE)
            writer.write(connections[topic], time, data)
    return folder


def changed(row: Row, change: Callable[[Any], None]) -> Row:
    """The row with its message changed in place."""
    topic, kind, time, data = row
    message = STORE.deserialize_cdr(data, kind)
    change(message)
    return topic, kind, time, bytes(STORE.serialize_cdr(message, kind))


def storage_file(bag: Path) -> Path:
    return next(file for file in bag.iterdir() if file.suffix in (".mcap", ".db3"))


def diagnosed(path: Path, **names: str) -> str:
    """The one diagnosis of a bag, as text."""
    (recorded,) = episodes_in(path, names or None).episodes
    return StateCritic().diagnose(recorded.episode).render()


def test_a_bag_is_whole_for_other_readers(failure: Episode, bag: Path) -> None:
    """Read by the library of MCAP and by rosbags, with the definitions that the bag itself holds."""
    told = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    with open(storage_file(bag), "rb") as file:
        reader = make_reader(file, validate_crcs=True)
        messages = list(reader.iter_messages())
        assert reader.get_summary().statistics.message_count == len(messages) == told["message_count"]
    assert told["storage_identifier"] == "mcap" and told["relative_file_paths"] == [storage_file(bag).name]
    boundaries = len(failure.chunks) + 1
    counts = {row["topic_metadata"]["name"]: row["message_count"] for row in told["topics_with_message_count"]}
    assert counts == {
        topics.CLOCK: boundaries, topics.JOINT_STATES: boundaries, topics.OBJECTS: boundaries, topics.TRUTH: boundaries,
        topics.ACTION_CHUNK: boundaries - 1, topics.EPISODE_EVENT: 2, topics.INSTRUCTION: 1, topics.ENVIRONMENT: 1,
    }
    with AnyReader([bag]) as any_reader:
        seen = {c.topic: any_reader.deserialize(data, c.msgtype) for c, _, data in any_reader.messages()}
    slot = 1
    last = seen[topics.OBJECTS].objects[slot]
    assert last.name == failure.spec.entity_names[slot]
    assert (last.pose.position.x, last.pose.orientation.w) == (
        failure.states.entity_position_base[-1, slot, 0], failure.states.entity_quaternion_xyzw[-1, slot, 3]
    )
    assert seen[topics.CLOCK].clock.sec == 3 and seen[topics.INSTRUCTION].data == failure.spec.instruction
    assert not any("trajectory" in topic for topic in seen)  # a replay moves no arm


def test_time_never_stands_at_zero(bag: Path) -> None:
    assert min(time for _, _, time, _ in rows_of(bag)) == 50_000_000


def test_the_episode_comes_back_bit_by_bit(failure: Episode, bag: Path) -> None:
    (recorded,) = episodes_in(bag).episodes
    back = recorded.episode
    assert recorded.notes == () and recorded.unvalidated == ""
    for field in dataclasses.fields(failure.states):
        assert np.array_equal(getattr(failure.states, field.name), getattr(back.states, field.name)), field.name
    for name in ("chunks", "executed", "predicates"):
        assert np.array_equal(getattr(failure, name), getattr(back, name)), name
    plain = ("spec", "seed", "actor", "outcome", "steps", "predicate_names", "reason", "versions", "variant", "branch_steps")
    assert all(getattr(failure, name) == getattr(back, name) for name in plain)


@pytest.mark.parametrize("storage", list(StoragePlugin))
def test_both_storages_and_single_files_give_the_diagnosis_of_the_episode(
    failure: Episode, bag: Path, tmp_path: Path, storage: StoragePlugin
) -> None:
    wanted = StateCritic().diagnose(failure).render()
    other = rewrite(bag, tmp_path / "other", rows_of(bag), storage)
    assert diagnosed(other) == diagnosed(storage_file(other)) == wanted
    (other / "metadata.yaml").unlink()
    found = episodes_in(other)
    assert found.notes == ["metadata.yaml is missing; its content was taken from 1 file(s)"]
    assert diagnosed(other) == wanted


def test_a_file_is_read_by_what_is_in_it_not_by_its_name(failure: Episode, bag: Path) -> None:
    file = storage_file(bag)
    file.rename(file.with_suffix(".db3"))
    found = episodes_in(bag)
    assert "metadata.yaml does not fit its files" in found.notes[0]
    assert found.notes[1].endswith(".db3 holds MCAP, another format than its name says")
    assert StateCritic().diagnose(found.episodes[0].episode) == StateCritic().diagnose(failure)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_bag_cut_off_by_a_crash_gives_its_readable_part(
    failure: Episode, bag: Path, tmp_path: Path, compressed: bool
) -> None:
    """Chunks of MCAP are a megabyte: the whole bag is one, and it is the cut-off one. Compressed, it comes back in
    blocks of 128 kB, so other topics are put between."""
    rows = rows_of(bag)
    if compressed:
        noise = np.random.default_rng(0)
        text = lambda: STORE.types["std_msgs/msg/String"](data=noise.bytes(25_000).hex())  # noqa: E731
        rows = [item for row in rows for item in ([row] if row[0] != topics.TRUTH else [
            row, ("/other", "std_msgs/msg/String", row[2], bytes(STORE.serialize_cdr(text(), "std_msgs/msg/String")))])]
    whole = storage_file(rewrite(bag, tmp_path / "whole", rows, compressed=compressed))
    data = whole.read_bytes()
    known = []
    for share in (0.35, 0.6, 0.8):
        cut = tmp_path / f"{share}.mcap"
        cut.write_bytes(data[: int(share * len(data))])
        found = episodes_in(cut)
        (recorded,) = found.episodes
        episode, (note,) = recorded.episode, found.notes
        assert note.startswith(f"{cut.name} is cut off: ") and note.endswith("what follows is missing")
        assert recorded.notes == (
            f"the episode is known for its first {episode.steps * 0.05:.2f} s only; its end is missing",
        )
        assert np.array_equal(episode.predicates, failure.predicates[: episode.steps])
        assert np.array_equal(episode.states.entity_position_base,
                              failure.states.entity_position_base[: len(episode.chunks) + 1])
        assert StateCritic().diagnose(episode).stage == StateCritic().diagnose(failure).stage
        known.append(episode.steps)
    assert 0 < known[0] < known[1] < known[2] <= failure.steps


def test_a_bag_without_its_index_is_read_to_the_end(failure: Episode, bag: Path) -> None:
    file = storage_file(bag)
    file.write_bytes(file.read_bytes()[:-40])
    found = episodes_in(bag)
    assert found.episodes[0].notes == ()
    assert StateCritic().diagnose(found.episodes[0].episode) == StateCritic().diagnose(failure)


def test_a_damaged_chunk_is_left_out_and_told(bag: Path, tmp_path: Path) -> None:
    file = storage_file(rewrite(bag, tmp_path / "whole", rows_of(bag), compressed=True))
    data = bytearray(file.read_bytes())
    data[len(data) // 4 : len(data) // 4 + 200] = bytes(200)
    file.write_bytes(data)
    with pytest.raises(MessageError, match=r"no episode: .*damaged"):
        episodes_in(file)


def test_a_damaged_database_gives_what_lies_before_the_damage(failure: Episode, bag: Path, tmp_path: Path) -> None:
    file = storage_file(rewrite(bag, tmp_path / "other", rows_of(bag), StoragePlugin.SQLITE3))
    file.write_bytes(file.read_bytes()[: int(0.7 * file.stat().st_size)])
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(file).execute("SELECT count(data) FROM messages").fetchall()
    found = episodes_in(file)
    assert "is damaged (database disk image is malformed): " in found.notes[0]
    (recorded,) = found.episodes
    assert 0 < recorded.episode.steps < failure.steps


def test_a_lost_message_ends_the_readable_part(failure: Episode, bag: Path, tmp_path: Path) -> None:
    rows = rows_of(bag)
    truths = [row for row in rows if row[0] == topics.TRUTH]
    rows.remove(truths[4])
    (recorded,) = episodes_in(rewrite(bag, tmp_path / "gap", rows)).episodes
    assert recorded.episode.steps == 24
    assert recorded.notes == ("the episode is known for its first 1.20 s only; what happened up to step 60 is missing",)


@pytest.mark.parametrize("again", [0, 10_000_000_000])
def test_a_bag_played_in_a_loop_counts_once(failure: Episode, bag: Path, tmp_path: Path, again: int) -> None:
    """Stamps jump back; the recorder's own time goes back as well, or goes on."""
    rows = rows_of(bag)
    thrice = [(topic, kind, time + k * again, data) for k in range(3) for topic, kind, time, data in rows]
    found = episodes_in(rewrite(bag, tmp_path / "loop", thrice, StoragePlugin.SQLITE3))
    (recorded,) = found.episodes
    assert StateCritic().diagnose(recorded.episode) == StateCritic().diagnose(failure)
    note = f"episode {failure.content_hash} is in the bag 3 times, as when it is played in a loop; it counts once"
    assert found.notes == [note]


def test_the_order_across_topics_does_not_matter(failure: Episode, bag: Path, tmp_path: Path) -> None:
    rows = sorted(rows_of(bag), key=lambda row: (row[0] != topics.EPISODE_EVENT, row[0] == topics.ENVIRONMENT))
    turned = [(topic, kind, number, data) for number, (topic, kind, _, data) in enumerate(rows)]
    assert diagnosed(rewrite(bag, tmp_path / "turned", turned)) == StateCritic().diagnose(failure).render()


def test_two_episodes_in_one_bag(failure: Episode, bag: Path, tmp_path: Path) -> None:
    """The same scene twice, the second time later: not a loop."""
    later = 20_000_000_000

    def move(message: Any) -> None:
        message.data = message.data.replace(f'"stamp": {stamp}', f'"stamp": {stamp + later}')

    second: list[Row] = []
    for row in rows_of(bag):
        stamp = row[2]
        if row[0] == topics.TRUTH:
            row = changed(row, move)
        if row[0] == topics.EPISODE_EVENT:
            row = changed(row, lambda message: setattr(message.header.stamp, "sec", message.header.stamp.sec + 20))
        second.append((row[0], row[1], stamp + later, row[3]))
    found = episodes_in(rewrite(bag, tmp_path / "two", [*rows_of(bag), *second]))
    assert len(found.episodes) == 2 and found.notes == []


def zero_stamps(row: Row) -> Row:
    topic, time = row[0], row[2]
    if topic == topics.TRUTH:
        return changed(row, lambda message: setattr(message, "data", message.data.replace(f'"stamp": {time}', '"stamp": 0')))
    if topic == topics.CLOCK:
        return changed(row, lambda message: (setattr(message.clock, "sec", 0), setattr(message.clock, "nanosec", 0)))
    if topic in (topics.ENVIRONMENT, topics.INSTRUCTION):
        return row
    return changed(row, lambda m: (setattr(m.header.stamp, "sec", 0), setattr(m.header.stamp, "nanosec", 0)))


def test_a_bag_stamped_zero_is_put_in_order_by_its_steps(failure: Episode, bag: Path, tmp_path: Path) -> None:
    rows = [zero_stamps(row) for row in rows_of(bag)]
    found = episodes_in(rewrite(bag, tmp_path / "zero", rows))
    assert StateCritic().diagnose(found.episodes[0].episode) == StateCritic().diagnose(failure)
    assert found.notes == ["stamps of 0 were found (recorded before the first /clock): the order is that of the control steps"]
    rows = [(topic, kind, 0, data) for topic, kind, _, data in rows]
    assert diagnosed(rewrite(bag, tmp_path / "all", rows)) == StateCritic().diagnose(failure).render()


def test_a_bag_without_clock_is_none_the_worse(failure: Episode, bag: Path, tmp_path: Path) -> None:
    rows = [row for row in rows_of(bag) if row[0] != topics.CLOCK]
    assert diagnosed(rewrite(bag, tmp_path / "clockless", rows)) == StateCritic().diagnose(failure).render()


def test_a_number_that_is_none_makes_the_episode_invalid(failure: Episode, bag: Path, tmp_path: Path) -> None:
    number = repr(float(failure.states.tool_position_base[3, 0]))
    rows = [
        changed(row, lambda message: setattr(message, "data", message.data.replace(number, "NaN")))
        if row[0] == topics.TRUTH else row
        for row in rows_of(bag)
    ]
    (recorded,) = episodes_in(rewrite(bag, tmp_path / "nan", rows)).episodes
    with pytest.raises(DiagnosisError, match=r"ended as invalid \(tool_position_base is nan at 1\.20 s\); only failures"):
        StateCritic().diagnose(recorded.episode)


def test_topics_of_another_recorder_by_a_map(failure: Episode, bag: Path, tmp_path: Path) -> None:
    theirs = rewrite(bag, tmp_path / "theirs", [("/lab" + row[0], *row[1:]) for row in rows_of(bag)])
    with pytest.raises(MessageError, match=r"no episode: .*holds .*/lab/coda/truth \(std_msgs/msg/String, 9\).*--topics"):
        episodes_in(theirs)
    names = {topic: f"/lab{topic}" for topic in (topics.TRUTH, topics.ENVIRONMENT, topics.EPISODE_EVENT)}
    assert diagnosed(theirs, **names) == StateCritic().diagnose(failure).render()
    with pytest.raises(MessageError, match="no topic '/lab/truth': /lab/clock, /lab/coda/action_chunk"):
        read_bag(theirs, {topics.TRUTH: "/lab/truth"})
    with pytest.raises(MessageError, match=r"topic /lab/clock is rosgraph_msgs/msg/Clock, expected std_msgs/msg/String"):
        read_bag(theirs, {topics.TRUTH: "/lab/clock"})


def test_what_is_missing_is_named(bag: Path, tmp_path: Path) -> None:
    rows = rows_of(bag)
    without = rewrite(bag, tmp_path / "spec", [row for row in rows if row[0] != topics.ENVIRONMENT])
    with pytest.raises(MessageError, match=r"the specification of environment \w+ is missing on /coda/environment"):
        episodes_in(without)
    first = next(row for row in rows if row[0] == topics.TRUTH)
    late = rewrite(bag, tmp_path / "late", [row for row in rows if row != first])
    with pytest.raises(MessageError, match="begins in the middle of an episode, whose reset is missing"):
        episodes_in(late)
    empty = rewrite(bag, tmp_path / "empty", [])
    with pytest.raises(MessageError, match="the bag holds no message"):
        episodes_in(empty)


@pytest.mark.parametrize(("content", "said"), [
    (b"", r"\(0 bytes\) is neither an MCAP nor an sqlite3 bag"), (b"\x00" * 100, "first bytes are of another format"),
    (b"\x89MCAP0\r\n", "is cut off: 0 messages"), (b"SQLite format 3\x00" + b"junk" * 40, "is damaged"),
])
def test_files_of_rubbish_are_told_in_a_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.mcap").write_bytes(content)
    with pytest.raises(CodaError, match=said):
        episodes_in(tmp_path / "x.mcap")


def test_a_file_that_is_lost_does_not_take_the_others_along(failure: Episode, bag: Path) -> None:
    (bag / "metadata.yaml").unlink()
    (bag / "zzz_1.mcap").write_bytes(b"")
    found = episodes_in(bag)
    assert len(found.notes) == 2 and "zzz_1.mcap (0 bytes) is neither" in found.notes[1]
    assert StateCritic().diagnose(found.episodes[0].episode) == StateCritic().diagnose(failure)


def test_a_folder_of_bags_names_them(bag: Path) -> None:
    with pytest.raises(ArtifactError, match=rf"holds 1 bags, name one of them: {bag.name}"):
        episodes_in(bag.parent)


@pytest.mark.parametrize("name", ["empty_sqlite3", "no_metadata_mcap", "no_metadata_sqlite3", "talker_mcap", "talker_sqlite3"])
def test_bags_that_rosbag2_wrote(name: str) -> None:
    if not RECORDED.is_dir():
        pytest.skip("the recorded bags of the rosbag2 project are not on this machine")
    with pytest.raises(MessageError, match=r"no episode: a diagnosis needs .* the bag holds /.* \(\w+/"):
        episodes_in(RECORDED / name)


def test_a_success_is_not_diagnosed_and_goes_through_a_bag_as_one(failure: Episode, tmp_path: Path) -> None:
    won = dataclasses.replace(failure, outcome="success")
    (recorded,) = episodes_in(write_bag(won, tmp_path / "won")).episodes
    assert recorded.episode.outcome == "success"
    invalid = dataclasses.replace(failure, outcome="invalid", reason="NaN in qacc")
    (recorded,) = episodes_in(write_bag(invalid, tmp_path / "invalid")).episodes
    assert (recorded.episode.outcome, recorded.episode.reason) == ("invalid", "NaN in qacc")


def test_an_episode_cut_off_after_its_goal_is_no_failure(failure: Episode, bag: Path, tmp_path: Path) -> None:
    goals = CompiledGoals([failure.spec])
    won = dataclasses.replace(failure, predicates=np.ones_like(failure.predicates))
    assert failure.predicate_names == goals.atom_names[0]
    whole = write_bag(won, tmp_path / "won")
    rows = [row for row in rows_of(whole) if row[0] != topics.EPISODE_EVENT]
    (recorded,) = episodes_in(rewrite(whole, tmp_path / "cut", rows)).episodes
    assert recorded.episode.outcome == "success" and "its end is missing" in recorded.notes[0]


def test_bags_of_failures_are_capped_and_of_each_family_in_turn(failure: Episode, tmp_path: Path) -> None:
    root = ArtifactRoot(tmp_path)
    ended = []
    for number, (family, outcome) in enumerate(
        [("a", "failure"), ("a", "failure"), ("a", "success"), ("b", "failure"), ("b", "invalid"), ("a", "failure")]
    ):
        episode = dataclasses.replace(failure, seed=number)
        summary = EpisodeSummary.of(dataclasses.replace(episode, outcome=outcome))
        ended.append(dataclasses.replace(summary, family=family))
        episode.save(root)
    written = write_failure_bags(root, ended, 3)
    assert written == [ended[0].hash, ended[3].hash, ended[1].hash]
    assert sorted(path.name for path in (tmp_path / "bags").iterdir()) == sorted(written)
    again = {path: path.stat().st_mtime_ns for path in (tmp_path / "bags").glob("*/*")}
    assert write_failure_bags(root, ended, 3) == written
    assert again == {path: path.stat().st_mtime_ns for path in (tmp_path / "bags").glob("*/*")}
    assert write_failure_bags(root, ended, 0) == []


def test_a_disk_that_refuses_leaves_nothing_behind(failure: Episode, tmp_path: Path) -> None:
    (tmp_path / "bags").write_text("a file")
    with pytest.raises(ArtifactError, match="cannot write"):
        write_bag(failure, tmp_path / "bags" / "x")

    def full(*_: object) -> list:
        raise OSError(28, "No space left on device")

    with pytest.raises(ArtifactError, match="No space left on device"):
        write_bag(failure, tmp_path / "new" / "x", full)
    assert list((tmp_path / "new").iterdir()) == []
    shutil.rmtree(tmp_path / "new")
