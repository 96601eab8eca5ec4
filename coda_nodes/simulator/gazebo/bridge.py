"""The configuration of ros_gz_bridge: which topics pass between ROS and Gazebo."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from coda_nodes.simulator.gazebo.plugins import check_release, message
from coda_nodes.simulator.gazebo.sdf import FIXTURES_TOPIC, WORLD, joint_state_topic, trajectory_topic
from coda_nodes.simulator.gazebo.worlds import camera_topic

TO_ROS, TO_GAZEBO = "GZ_TO_ROS", "ROS_TO_GZ"


def bridge_yaml(robot: str, cameras: Sequence[str], release: str = "harmonic") -> str:
    """YAML for ``ros2 run ros_gz_bridge parameter_bridge --ros-args -p config_file:=FILE``.

    Raises:
        ConfigError: a Gazebo release that is not known.
    """
    check_release(release)
    rows = [
        ("/clock", "rosgraph_msgs/msg/Clock", "Clock", TO_ROS),
        (joint_state_topic(robot), "sensor_msgs/msg/JointState", "Model", TO_ROS),
        (FIXTURES_TOPIC, "sensor_msgs/msg/JointState", "Model", TO_ROS),
        (trajectory_topic(robot), "trajectory_msgs/msg/JointTrajectory", "JointTrajectory", TO_GAZEBO),
        (f"{trajectory_topic(robot)}_progress", "std_msgs/msg/Float32", "Float", TO_ROS),
        (f"/world/{WORLD}/dynamic_pose/info", "tf2_msgs/msg/TFMessage", "Pose_V", TO_ROS),
    ]
    for camera in cameras:
        rows.append((camera_topic(camera), "sensor_msgs/msg/Image", "Image", TO_ROS))
        rows.append((f"/camera/{camera}/camera_info", "sensor_msgs/msg/CameraInfo", "CameraInfo", TO_ROS))
    entries = [
        {
            "ros_topic_name": topic,
            "gz_topic_name": topic,
            "ros_type_name": kind,
            "gz_type_name": message(gazebo_kind, release),
            "direction": direction,
        }
        for topic, kind, gazebo_kind, direction in rows
    ]
    return yaml.safe_dump(entries, sort_keys=False)
