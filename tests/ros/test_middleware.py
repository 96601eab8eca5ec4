"""Parameters, quality of service, services, actions and clients, between two real nodes."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from coda_interfaces.action import Train
from coda_interfaces.srv import Query
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String

from coda_nodes.ros import clients, qos
from coda_nodes.ros.background import Background, Goal, serve, serve_action
from coda_nodes.ros.node_main import Spinner
from coda_nodes.ros.parameters import Parameters
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import ArtifactError, CodaError, ConfigError, NodeError, may_pass


@dataclass(frozen=True)
class Settings:
    """A configuration with each kind of setting."""

    rate: float = setting(20.0, "steps per second", "Hz", low=1, high=100)
    workers: int = setting(2, "processes", low=1)
    mode: str = setting("lockstep", "who owns the clock", choices=("lockstep", "real_time"))
    record: bool = setting(False, "write bags")
    families: tuple[str, ...] = setting(("stack",), "families that take part")

    def __post_init__(self) -> None:
        check_settings(self)


@pytest.fixture
def pair(ros: None) -> Iterator[tuple[Node, Node]]:
    """Two nodes, each spinning on an executor of its own."""
    server, client = Node("coda_server"), Node("coda_client")
    with Spinner(server), Spinner(client):
        yield server, client
    server.destroy_node()
    client.destroy_node()


def test_parameters_follow_the_dataclass(ros: None) -> None:
    node = Node("settings")
    parameters = Parameters(node, Settings)
    assert parameters.value == Settings()
    described = node.describe_parameter("rate")
    assert described.description == "steps per second [Hz]"
    assert (described.floating_point_range[0].from_value, described.floating_point_range[0].to_value) == (
        1,
        100,
    )
    assert node.describe_parameter("mode").additional_constraints == "one of: lockstep, real_time"
    assert node.describe_parameter("workers").integer_range[0].to_value == 2**63 - 1
    seen: list[Settings] = []
    parameters.watch(seen.append)
    (result,) = node.set_parameters([Parameter("families", value=["stack", "push_insert"])])
    assert result.successful
    assert parameters.value.families == ("stack", "push_insert")
    assert seen == [parameters.value]
    node.destroy_node()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("rate", 1000.0, "out of range"),
        ("workers", 0, "out of range"),
        ("mode", "fast", "lockstep, real_time"),
    ],
)
def test_a_wrong_parameter_is_refused_and_nothing_changes(
    ros: None, name: str, value: object, words: str
) -> None:
    node = Node("settings")
    parameters = Parameters(node, Settings)
    (result,) = node.set_parameters([Parameter(name, value=value)])
    assert not result.successful
    assert words in result.reason
    assert parameters.value == Settings()
    node.destroy_node()


@pytest.mark.parametrize(
    ("override", "words"),
    [("rate:=1000.0", "rate.*out of range"), ("rate:=10", "5\\.0"), ("mode:=fast", "lockstep, real_time")],
)
def test_a_wrong_start_value_stops_the_node(ros: None, override: str, words: str) -> None:
    node = Node("settings", cli_args=["--ros-args", "-p", override])
    with pytest.raises(ConfigError, match=words):
        Parameters(node, Settings)
    node.destroy_node()


@pytest.mark.parametrize("wrong_side", ["publisher", "subscription"])
def test_profiles_that_do_not_fit_are_reported_with_both(pair, until, wrong_side: str) -> None:
    server, client = pair
    reports: list[str] = []
    reliable = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
    if wrong_side == "publisher":
        qos.publisher(server, String, "/talk", qos.IMAGE, reports.append)
        client.create_subscription(String, "/talk", lambda _: None, reliable)
    else:
        client.create_publisher(String, "/talk", qos.IMAGE)
        qos.subscription(server, String, "/talk", lambda _: None, reliable, reports.append)
    until(lambda: reports, "a report")
    assert "/talk" in reports[0]
    assert "best effort, volatile" in reports[0]
    assert "reliable, volatile" in reports[0]
    assert "/coda_client" in reports[0]


def test_every_stream_profile_of_ours_fits_what_others_use(ros: None) -> None:
    reliable = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
    best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    for other in (reliable, best_effort):
        assert qos.fits(qos.STREAM_OFFERED, other)
        assert qos.fits(other, qos.STREAM_ASKED)
    late = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    assert qos.fits(qos.LATCHED, late)
    assert not qos.fits(qos.EVENTS, late)


def test_a_message_that_is_refused_is_reported_and_the_node_goes_on(pair, until) -> None:
    server, client = pair
    reports: list[str] = []
    heard: list[str] = []

    def receive(message: String) -> None:
        if message.data == "wrong":
            raise CodaError("no word 'wrong': right")
        heard.append(message.data)

    qos.subscription(server, String, "/talk", receive, qos.EVENTS, reports.append)
    publisher = client.create_publisher(String, "/talk", qos.EVENTS)
    until(publisher.get_subscription_count, "the subscriber")
    publisher.publish(String(data="wrong"))
    publisher.publish(String(data="right"))
    until(lambda: heard == ["right"], "the message after the refused one")
    assert reports == ["message on /talk refused: no word 'wrong': right"]


def _answer(request: Query.Request, response: Query.Response) -> Query.Response:
    if request.kind == "wrong":
        raise CodaError("no kind 'wrong': program")
    if request.kind == "bug":
        raise ZeroDivisionError("by zero")
    response.accepted = True
    response.records_json = [request.query_json]
    return response


@pytest.mark.parametrize("threaded", [False, True])
def test_service_answers_and_refusals(pair, threaded: bool) -> None:
    server, client = pair
    background = Background(server) if threaded else None
    serve(server, Query, "/ask", _answer, background)
    ask = clients.ServiceCaller(client, Query, "/ask")
    assert ask.call(Query.Request(kind="program", query_json="{}"), timeout=10).records_json == ["{}"]
    with pytest.raises(NodeError, match="/ask refused: no kind 'wrong': program"):
        ask.call(Query.Request(kind="wrong"), timeout=10)
    with pytest.raises(NodeError, match="ZeroDivisionError: by zero"):
        ask.call(Query.Request(kind="bug"), timeout=10)
    assert background is None or background.close()


def test_long_service_leaves_the_executor_free_and_times_out_for_its_client(pair) -> None:
    server, client = pair
    background, release = Background(server), threading.Event()

    def long(request: Query.Request, response: Query.Response) -> Query.Response:
        release.wait(20)
        return _answer(request, response)

    serve(server, Query, "/long", long, background)
    serve(server, Query, "/short", _answer)
    with pytest.raises(NodeError, match=r"/long did not answer within 0\.5 s"):
        clients.ServiceCaller(client, Query, "/long").call(Query.Request(kind="program"), timeout=0.5)
    assert (
        clients.ServiceCaller(client, Query, "/short").call(Query.Request(kind="program"), timeout=5).accepted
    )
    release.set()
    assert background.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOENT])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_refusal_that_may_pass_is_known_as_such_by_its_client(pair, number: int, wrapped: bool) -> None:
    server, client = pair
    background = Background(server)

    def fail() -> None:
        try:
            raise OSError(number, "no")
        except OSError as error:
            if wrapped:
                raise ArtifactError("cannot write it") from error
            raise

    serve(server, Query, "/full", lambda request, response: fail(), background)
    serve_action(server, Train, "/fills", lambda goal: fail(), background, _failed)
    calls = (
        lambda: clients.ServiceCaller(client, Query, "/full").call(Query.Request(), 10),
        lambda: clients.ActionCaller(client, Train, "/fills").run(Train.Goal(), 10),
    )
    for call in calls:
        with pytest.raises(NodeError, match="refused: (?!for now)") as error:
            call()
        assert may_pass(error.value) is (number == errno.ENOSPC)
    background.close()


def test_missing_service_names_the_nodes_that_run(pair) -> None:
    _, client = pair
    with pytest.raises(
        NodeError, match=r"service /nowhere not found after 0\.3 s; nodes that run: coda_client"
    ):
        clients.ServiceCaller(client, Query, "/nowhere").call(Query.Request(), timeout=1, discovery=0.3)


def test_server_that_ends_before_it_answers(pair, monkeypatch) -> None:
    _, client = pair
    monkeypatch.setattr(clients, "GONE_AFTER", 0.5)
    mortal = Node("mortal")
    hold = threading.Event()
    background = Background(mortal)
    with Spinner(mortal):
        serve(mortal, Query, "/mortal", lambda request, response: hold.wait(20) and response, background)
        ask = clients.ServiceCaller(client, Query, "/mortal")
        ask.wait(10)
        threading.Timer(0.5, mortal.destroy_node).start()
        with pytest.raises(NodeError, match="/mortal: its node ended before it answered"):
            ask.call(Query.Request(), timeout=15)
    hold.set()
    background.close()


def test_blocking_call_in_a_callback_is_refused(pair, until) -> None:
    server, client = pair
    serve(server, Query, "/ask", _answer)
    ask = clients.ServiceCaller(client, Query, "/ask")
    errors: list[str] = []

    def callback() -> None:
        try:
            ask.call(Query.Request(), timeout=1)
        except NodeError as error:
            errors.append(str(error))

    client.create_timer(0.01, callback)
    until(lambda: errors, "the refusal")
    assert "from a callback of coda_client" in errors[0]


def _train(goal: Goal) -> Train.Result:
    for step in range(1, 4):
        goal.feedback(step=step, total=3, loss=1.0 / step)
    if goal.request.training_program_json == "wrong":
        raise CodaError("no setting 'wrong'")
    pause = threading.Event()
    while goal.request.training_program_json == "endless" and not goal.cancelled:
        pause.wait(0.01)
    return Train.Result(accepted=True, checkpoint_hash="cancelled" if goal.cancelled else "done")


def _failed(result: Train.Result, message: str) -> Train.Result:
    result.message = message
    return result


def test_action_feedback_result_refusal_and_cancel(pair, until) -> None:
    server, client = pair
    background = Background(server)
    serve_action(server, Train, "/train", _train, background, _failed)
    train = clients.ActionCaller(client, Train, "/train")
    steps: list[int] = []
    result = train.run(Train.Goal(), timeout=10, on_feedback=lambda feedback: steps.append(feedback.step))
    assert result.checkpoint_hash == "done"
    until(lambda: steps == [1, 2, 3], "all feedback")
    with pytest.raises(NodeError, match="/train refused: no setting 'wrong'"):
        train.run(Train.Goal(training_program_json="wrong"), timeout=10)
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    result = train.run(Train.Goal(training_program_json="endless"), timeout=10, cancelled=stop.is_set)
    assert result.checkpoint_hash == "cancelled"
    with pytest.raises(NodeError, match=r"/train did not answer within 0\.5 s"):
        train.run(Train.Goal(training_program_json="endless"), timeout=0.5)
    assert background.close()  # the overdue goal was cancelled, so its worker ends
