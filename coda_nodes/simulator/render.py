"""Pictures of scenes: from primitive geometry, without multisampling and shadows, at the cameras of a
specification."""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from coda_nodes.simulator.fill import MODEL_FIELDS, assign, fill, model_fields, start_position, wxyz
from coda_nodes.simulator.gl import find_backend, make_context
from coda_nodes.simulator.scene import SceneModel, build_scene
from coda_nodes.world.errors import SimulationError, unknown
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import CameraSpec, EnvironmentSpec, FixtureSpec
from coda_nodes.world.state import SceneState

Image = NDArray[np.uint8]
"""RGB, first row at the top. Shape (H, W, 3)."""
MOST_GEOMS = 200
AMBIENT = 0.35
"""Light from everywhere, of 0 to 1."""
QPOS_OFFSET = 1
"""A snapshot row begins with the time, then the positions."""


class Renderer:
    """Draws scenes of any family. Raises NotAvailableError when no OpenGL works, see ``gl.find_backend``."""

    def __init__(self, width: int = 256, height: int = 256) -> None:
        self.width, self.height = width, height
        self.backend = find_backend()
        """``egl`` or ``osmesa``."""
        self._context = make_context(self.backend, width, height)
        self._stages: dict[tuple[str, str], _Stage] = {}
        self._option = mujoco.MjvOption()
        # at the end of the process, buffers and context must go before the modules that free them
        self._free = weakref.finalize(self, _free, self._stages, self._context)

    def render(
        self,
        spec: EnvironmentSpec,
        state: SceneState | NDArray[np.float64] | None = None,
        camera: str = "",
        row: int = 0,
    ) -> Image:
        """Picture of a scene from one of its cameras (the first by default).

        ``state``: a scene state (of which ``row`` is drawn), one row of a simulator snapshot, or None for the
        start.
        Raises SimulationError that lists the cameras there are.
        """
        self._context.make_current()
        key = (spec.family, spec.robot)
        if key not in self._stages:
            self._stages[key] = _Stage(build_scene(spec.family, robot(spec.robot)), self.width, self.height)
        stage = self._stages[key]
        stage.set(spec, state, row)
        return stage.draw(_camera(spec, camera), self._option)

    def close(self) -> None:
        """Free the context; the renderer draws no more."""
        self._free()


def _free(stages: dict[tuple[str, str], _Stage], context: Any) -> None:
    stages.clear()
    context.free()


class _Stage:
    """The model of one family, its buffers, and what it looked like before any specification was filled
    in."""

    def __init__(self, scene: SceneModel, width: int, height: int) -> None:
        self._scene, self._model = scene, scene.model
        # with sleep, MuJoCo moves bodies that stand still only when its data is made
        self._model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_SLEEP)
        self._model.vis.quality.offsamples = 0
        self._model.vis.global_.offwidth, self._model.vis.global_.offheight = width, height
        self._plain = {name: values.copy() for name, values in model_fields(self._model).items()}
        self._fields = model_fields(self._model)
        self._data = mujoco.MjData(self._model)
        self._geometry = mujoco.MjvScene(self._model, MOST_GEOMS)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._geometry.flags[int(flag)] = 0
        self._buffers = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100)
        self._view = mujoco.MjrRect(0, 0, width, height)
        self._picture = np.empty((height, width, 3), dtype=np.uint8)

    def set(self, spec: EnvironmentSpec, state: SceneState | NDArray[np.float64] | None, row: int) -> None:
        slots = assign(self._scene, spec)
        for name in MODEL_FIELDS:
            self._fields[name][:] = self._plain[name]
        fill(self._scene, self._fields, spec, slots)
        self._light(spec)
        self._data.qpos[:] = self._model.qpos0
        start_position(self._scene, spec, slots, self._data.qpos)
        if isinstance(state, SceneState):
            _place(self._scene, spec, slots, state, row, self._data.qpos)
        elif state is not None:
            self._data.qpos[:] = np.ravel(state)[QPOS_OFFSET : QPOS_OFFSET + self._model.nq]
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)

    def draw(self, camera: CameraSpec, option: mujoco.MjvOption) -> Image:
        self._model.vis.global_.fovy = camera.fov_y
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            option,
            None,
            _free_camera(camera),
            mujoco.mjtCatBit.mjCAT_ALL,
            self._geometry,
        )
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._buffers)
        mujoco.mjr_render(self._view, self._geometry, self._buffers)
        mujoco.mjr_readPixels(self._picture, None, self._view, self._buffers)
        return np.ascontiguousarray(self._picture[::-1])  # OpenGL's first row is the lowest

    def _light(self, spec: EnvironmentSpec) -> None:
        direction = np.array(spec.light.direction, dtype=float)
        self._model.light_dir[0] = direction / max(float(np.linalg.norm(direction)), 1e-9)
        self._model.light_diffuse[0] = spec.light.intensity
        self._model.vis.headlight.ambient[:], self._model.vis.headlight.diffuse[:] = AMBIENT, 0.2


def _camera(spec: EnvironmentSpec, name: str) -> CameraSpec:
    for camera in spec.cameras:
        if name in ("", camera.name):
            return camera
    raise SimulationError(unknown("camera", name, (camera.name for camera in spec.cameras)))


def _free_camera(spec: CameraSpec) -> mujoco.MjvCamera:
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    away = np.array(spec.look_at) - np.array(spec.position)
    camera.lookat[:], camera.distance = spec.look_at, float(np.linalg.norm(away))
    camera.azimuth = math.degrees(math.atan2(away[1], away[0]))
    camera.elevation = math.degrees(math.asin(away[2] / max(camera.distance, 1e-9)))
    return camera


def _place(
    scene: SceneModel,
    spec: EnvironmentSpec,
    slots: Sequence[int],
    state: SceneState,
    row: int,
    qpos: NDArray[np.float64],
) -> None:
    """Positions of a plain model from what a scene state tells."""
    qpos[scene.arm_qpos] = state.joint_positions[row]
    qpos[scene.finger_qpos] = scene.robot.gripper_command(state.gripper_opening[row])
    for k, (entity, index) in enumerate(zip(spec.entities, slots, strict=True)):
        slot = scene.slots[index]
        if isinstance(entity, FixtureSpec):
            qpos[slot.qpos] = state.entity_joint_value[row, k]
        elif slot.kind == "movable":
            qpos[slot.qpos : slot.qpos + 3] = state.entity_position_base[row, k]
            qpos[slot.qpos + 3 : slot.qpos + 7] = wxyz(state.entity_quaternion_xyzw[row, k])
