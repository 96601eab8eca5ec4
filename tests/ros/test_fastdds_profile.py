"""The Fast DDS profile: camera images arrive, which the default transports lose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from coda_nodes.ros.environment import node_environment, profiles_file, take_domain

FRAMES = 60

SUBSCRIBER = """
import sys, time, rclpy
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
rclpy.init()
node, got = rclpy.create_node("camera_reader"), []
node.create_subscription(Image, "image", lambda image: got.append(len(image.data)), qos_profile_sensor_data)
print("ready", flush=True)
last = time.monotonic()
while time.monotonic() < last + (3 if got else 30) and len(got) < int(sys.argv[1]):
    before = len(got)
    rclpy.spin_once(node, timeout_sec=0.2)
    last = time.monotonic() if len(got) > before else last
print(len(got), set(got))
"""

PUBLISHER = """
import array, sys, time, rclpy
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Image
rclpy.init()
node = rclpy.create_node("camera")
publisher = node.create_publisher(Image, "image", qos_profile_sensor_data)
message = Image(height=480, width=640, step=1920, encoding="rgb8")
message.data = array.array("B", bytes(640 * 480 * 3))
while publisher.get_subscription_count() == 0:
    time.sleep(0.02)
for _ in range(int(sys.argv[1])):
    publisher.publish(message)
    time.sleep(1 / 30)
"""


def test_images_at_camera_rate_arrive(tmp_path: Path):
    with take_domain(env={}) as domain:
        env = node_environment(tmp_path, domain.number, nodes=2)
        env["FASTDDS_DEFAULT_PROFILES_FILE"] = str(profiles_file())
        env.pop("CODA_PARENT_PID")
        reader = subprocess.Popen(
            [sys.executable, "-c", SUBSCRIBER, str(FRAMES)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert reader.stdout.readline() == "ready\n"
        camera = subprocess.run(
            [sys.executable, "-c", PUBLISHER, str(FRAMES)],
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        printed, complaints = reader.communicate(timeout=60)
    assert camera.returncode == 0, camera.stderr
    assert "XML" not in complaints + camera.stderr  # the profile was understood
    received, _, sizes = printed.strip().partition(" ")
    assert sizes == "{921600}"
    assert int(received) >= 0.8 * FRAMES, f"{received} of {FRAMES} images"  # without the profile: about 5
