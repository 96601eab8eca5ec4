"""Settings of the whole suite."""

import os

from hypothesis import settings

# a build must not fail by chance: CI tries the same examples every time, a developer's machine new ones
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
