"""Pictures: which way is up, left and near; equal from either state; back ends; drawings without OpenGL."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.gl import works
from coda_nodes.simulator.render import Renderer
from coda_nodes.simulator.schematic import Painter, contact_sheet, schematic
from coda_nodes.world.errors import NotAvailableError, SimulationError
from coda_nodes.world.spec import CameraSpec


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    try:
        renderer = Renderer(160, 120)
    except NotAvailableError as error:
        pytest.skip(str(error))
    yield renderer
    renderer.close()


def centre(picture: np.ndarray, channel: int) -> np.ndarray:
    """Mean (row, column) of the pixels in which one colour channel leads clearly."""
    others = np.delete(picture.astype(int), channel, axis=2).max(axis=2)
    found = np.argwhere(picture[..., channel] - others > 60)
    assert len(found) > 5
    return found.mean(axis=0)


def scene(make_spec, **changes):
    """A red cube to the right of the robot (y < 0), a blue bin to its left (y > 0)."""
    return make_spec(x=0.45, y=-0.2, z=0.35, **changes)


def test_from_the_front_the_robots_left_is_right_and_high_is_up(renderer, make_spec) -> None:
    picture = renderer.render(scene(make_spec))
    assert picture.shape == (120, 160, 3) and picture.dtype == np.uint8
    cube, container = centre(picture, 0), centre(picture, 2)
    assert cube[1] < container[1] - 20 and cube[0] < container[0] - 20


def test_a_camera_behind_the_robot_sees_it_the_other_way_round(renderer, make_spec) -> None:
    behind = CameraSpec(name="behind", position=(-0.6, 0.0, 1.0), look_at=(0.5, 0.0, 0.05))
    above = CameraSpec(name="above", position=(0.4499, 0.0, 1.4), look_at=(0.45, 0.0, 0.0))
    spec = scene(make_spec, cameras=(behind, above))
    picture = renderer.render(spec, camera="behind")
    assert centre(picture, 0)[1] > centre(picture, 2)[1] + 20
    assert renderer.render(spec).tolist() == picture.tolist()  # the first camera is the default
    with pytest.raises(SimulationError, match="no camera 'wrist': behind, above"):
        renderer.render(spec, camera="wrist")


def test_snapshot_and_scene_state_give_the_same_picture(renderer, train_specs) -> None:
    for family in ("articulated", "push_insert"):
        simulator = BatchSimulator(family, 2)
        specs = train_specs(family, 2)
        simulator.reset(specs)
        simulator.step_chunk(np.full((2, 8, 7), 0.03))
        state, rows = simulator.state(), simulator.snapshot()
        for i, spec in enumerate(specs):
            first, second = renderer.render(spec, state, row=i), renderer.render(spec, rows[i])
            assert np.abs(first.astype(int) - second).mean() < 0.1
        assert not np.array_equal(renderer.render(specs[0], rows[0]), renderer.render(specs[1], rows[1]))


def test_one_renderer_forgets_the_scene_before(renderer, make_spec, train_specs) -> None:
    spec = scene(make_spec)
    first = renderer.render(spec)
    renderer.render(train_specs("pick_place", 1)[0])
    np.testing.assert_array_equal(renderer.render(spec), first)


@pytest.mark.parametrize("backend", ["glfw", "osmesa"])
def test_without_opengl_the_error_says_what_to_install_and_drawings_go_on(backend: str) -> None:
    if backend == "osmesa" and works("osmesa"):
        pytest.skip("OSMesa works here")
    code = (
        "from coda_nodes.simulator.schematic import Painter\n"
        "p = Painter(); print(p.backend); print(p.reason)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MUJOCO_GL": backend},
        capture_output=True,
        text=True,
        check=True,
    )
    kind, reason = answer.stdout.splitlines()
    assert kind == "schematic"
    assert (
        ("libosmesa6" in reason and "libegl1" in reason)
        if backend == "osmesa"
        else "'glfw': egl, osmesa" in reason
    )


def test_schematic_keeps_directions(make_spec) -> None:
    spec = scene(make_spec)
    state = BatchSimulator("pick_place", 1).reset([spec])
    picture = schematic(spec, state, 200, 200)
    top, side = picture[:123], picture[125:]
    # from above, forward is up and the robot's left is left
    assert centre(top, 0)[1] > centre(top, 2)[1] + 20
    assert centre(side, 0)[1] > centre(side, 2)[1] + 20 and centre(side, 0)[0] < centre(side, 2)[0] - 10
    farther = schematic(
        scene(make_spec).revise(),
        BatchSimulator("pick_place", 1).reset([make_spec(x=0.65, y=-0.2)]),
        200,
        200,
    )
    assert centre(farther[:123], 0)[0] < centre(top, 0)[0] - 10


def test_contact_sheet_holds_every_picture(make_spec) -> None:
    spec = make_spec()
    state = BatchSimulator("pick_place", 1).reset([spec])
    pictures = [schematic(spec, state, 80, 60)] * 4
    sheet = contact_sheet(
        pictures, ["one", "two", "three", "a caption much longer than its picture is wide"], columns=3
    )
    assert sheet.shape == (2 * (60 + 22), 240, 3)
    np.testing.assert_array_equal(sheet[:60, 80:160], pictures[1])
    assert Painter(64, 48).paint(spec, state).shape == (48, 64, 3)
