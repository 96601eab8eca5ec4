"""Networks, observation and action normalization, checkpoints, policy runner, inverse kinematics."""
