"""Sets of scenes drawn for measuring."""

import numpy as np
import pytest

from coda_nodes.conductor.scenes import draw_valid


@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_valid_scenes_as_asked_for(count):
    assert len(draw_valid("stack", "dev", count, np.random.default_rng(0))) == count
