"""CoDA: environments and a robot policy that evolve together, as ROS 2 nodes."""

__version__ = "0.1.0"
