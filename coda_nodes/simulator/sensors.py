"""Contact counters of a scene model: which pairs are watched, and where their counts stand."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from coda_nodes.world.robots import RobotDescription


@dataclass(frozen=True)
class ContactSensors:
    """Addresses in ``sensordata`` of the counts of contacts; the last address, which stays 0, stands for
    none."""

    left: np.ndarray
    """Slot against the left pad. Shape (B,)."""
    right: np.ndarray
    robot: np.ndarray
    table: np.ndarray
    pair: np.ndarray
    """Slot against slot. Shape (B, B)."""
    none: int


def add_sensors(
    spec: mujoco.MjSpec, robot: RobotDescription, names: list[tuple[str, str]]
) -> dict[tuple, int]:
    """Add one contact counter per pair that matters; return address by (what, slot[, slot])."""
    table: dict[tuple, int] = {}
    geom, tree = mujoco.mjtObj.mjOBJ_GEOM, mujoco.mjtObj.mjOBJ_XBODY

    def count(key: tuple, kind1: int, name1: str, kind2: int, name2: str) -> None:
        spec.add_sensor(
            name="_".join(map(str, key)),
            type=mujoco.mjtSensor.mjSENS_CONTACT,
            objtype=kind1,
            objname=name1,
            reftype=kind2,
            refname=name2,
            intprm=[1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND), 0, 1],
        )
        table[key] = len(table)

    for i, (kind, name) in enumerate(names):
        if kind == "marker":
            continue
        count(("robot", i), tree, robot.root_body, tree, name)
        if kind in ("movable", "drawer", "knob"):
            grip = {"movable": f"{name}_0", "drawer": f"{name}_moving_6", "knob": f"{name}_moving_0"}[kind]
            for side, pad in zip(("left", "right"), robot.pad_bodies, strict=True):
                count((side, i), mujoco.mjtObj.mjOBJ_BODY, pad, geom, grip)
        if kind == "movable":
            count(("table", i), geom, "table", geom, f"{name}_0")
        for j, (other, other_name) in enumerate(names[:i]):
            if other == "movable":
                count(("pair", j, i), tree, other_name, tree, name)
    return table


def addresses(table: dict[tuple, int], count: int) -> ContactSensors:
    none = len(table)
    of = lambda what: np.array([table.get((what, i), none) for i in range(count)])  # noqa: E731
    pair = np.full((count, count), none)
    for key, address in table.items():
        if key[0] == "pair":
            pair[key[1], key[2]] = pair[key[2], key[1]] = address
    return ContactSensors(
        left=of("left"), right=of("right"), robot=of("robot"), table=of("table"), pair=pair, none=none
    )
