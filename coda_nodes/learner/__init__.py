"""Imitation, corrections, and what later learns from the policy's own rollouts."""
