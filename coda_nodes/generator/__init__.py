"""Samples environment specifications from generation programs, and refuses unusable ones."""
