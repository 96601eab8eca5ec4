"""A scene that lives in Gazebo, mirrored into MuJoCo: the same code then reads poses, contacts and predicates.

Gazebo tells joint values, poses and velocities. Contacts follow from geometry: things nearer than ``TOUCHING`` touch.
Nothing is simulated here.
"""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np
from numpy.typing import NDArray

from coda_nodes.simulator.fill import assign, entity_arrays, start_position, wxyz
from coda_nodes.simulator.gazebo.scene import model_name
from coda_nodes.simulator.gazebo.wire import Seen
from coda_nodes.simulator.physics import Physics
from coda_nodes.simulator.reading import SceneReader
from coda_nodes.simulator.scene import build_scene
from coda_nodes.world.robots import RobotDescription
from coda_nodes.world.spec import EnvironmentSpec, FixtureSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
TOUCHING = 5e-4
"""Gap [m] below which two things touch: engines leave gaps and penetrations of this size where things rest."""
ROW = np.zeros(1, dtype=int)


class Mirror:
    """One MuJoCo simulation of a family that is posed, never stepped."""

    def __init__(self, family: str, robot: RobotDescription) -> None:
        self.scene = build_scene(family, robot)
        self.scene.model.geom_margin[:] = TOUCHING
        self.scene.model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_SLEEP)  # a sleeping body is not moved
        self._physics = Physics(self.scene, 1, 1)
        self._state = {name: self._physics.batch.bind(name) for name in ("time", "qpos", "qvel")}

    def load(self, spec: EnvironmentSpec) -> None:
        """Take a specification. Raises SimulationError, see ``fill.assign`` and ``fill.start_position``."""
        slots = assign(self.scene, spec)
        start = self.scene.model.qpos0.copy()
        start_position(self.scene, spec, slots, start)
        self._physics.load([spec], [slots], start[None])
        self._spec, self._slots, self._start = spec, slots, start
        self._reader = SceneReader(self.scene, self._physics.batch, [spec], [slots], entity_arrays([spec]))

    @property
    def movable(self) -> list[str]:
        """Names of the models that move freely."""
        return [model_name(e.name) for e, s in self._pairs() if self.scene.slots[s].kind == "movable"]

    def read(self, joints: Mapping[str, tuple[float, float]], seen: Mapping[str, Seen], time: float) -> SceneState:
        """State of the scene from joint values (counted from their start) and poses, ``time`` [s] since the reset."""
        qpos, qvel = self._state["qpos"][0], self._state["qvel"][0]
        robot, model = self.scene.robot, self.scene.model
        for name in (*robot.joint_names, *robot.finger_joints):
            address, dof = int(model.joint(name).qposadr[0]), int(model.joint(name).dofadr[0])
            value, qvel[dof] = joints[name]
            qpos[address] = self._start[address] + value
        for entity, number in self._pairs():
            slot, name = self.scene.slots[number], model_name(entity.name)
            if isinstance(entity, FixtureSpec):
                value, qvel[slot.dof] = joints[f"{name}_joint"]
                qpos[slot.qpos] = entity.joint_value + value
            elif slot.kind == "movable":
                qpos[slot.qpos : slot.qpos + 3] = seen[name].position
                qpos[slot.qpos + 3 : slot.qpos + 7] = wxyz(seen[name].quaternion_xyzw)  # type: ignore[arg-type]
                qvel[slot.dof : slot.dof + 3] = seen[name].velocity
        self._state["time"][0] = time
        self._physics.batch.forward(ROW)
        return self._reader.read()

    def snapshot(self, set_points: Array) -> Array:
        """The pose as a physics state of MuJoCo, with joint set points (J,) [rad]. Shape (1, S)."""
        self._physics.set_points[0] = set_points
        return self._physics.store(ROW)

    @property
    def width(self) -> int:
        """Columns of a snapshot."""
        return self._physics.width

    def _pairs(self):
        return zip(self._spec.entities, self._slots, strict=True)
