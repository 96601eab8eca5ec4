"""The measurement itself: both paths do the same steps, all rates are positive."""

from __future__ import annotations

import pytest

from coda_nodes.simulator.throughput import measure


@pytest.mark.parametrize("motion", ["sweep", "expert"])
def test_measure_times_all_paths(motion: str) -> None:
    result = measure("pick_place", environments=3, repeats=1, motion=motion, chunks=3)
    assert min(result.batch, result.mj_step, result.mj_step_sleeping) > 50
    assert result.batch_vs_mj_step == result.batch / result.mj_step
    if motion == "sweep":
        assert result.control_steps == 3 * 3 * 8
