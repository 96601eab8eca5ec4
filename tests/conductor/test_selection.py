"""Clusters of diagnoses by cause."""

from coda_nodes.conductor.selection import cause_key, cluster, select
from coda_nodes.world.diagnosis import Cause, CriticInfo, Diagnosis


def diagnosis(family: str, axis: str | None, parameter: str = "x", confidence: float = 0.5, text: str = "t") -> Diagnosis:
    cause = Cause(axis=axis, parameter=parameter, observed=0.6, nominal=0.4) if axis else None
    return Diagnosis(
        text=text, stage="grasp", failure_mode="missed_grasp", cause=cause, confidence=confidence, family=family,
        critic=CriticInfo(name="state", version="1"),
    )


def test_clusters_are_ordered_by_summed_confidence():
    few_sure = [diagnosis("stack", "position", confidence=0.9)]
    many = [diagnosis("stack", "objects", "mass", confidence=0.4, text=str(i)) for i in range(3)]
    found = cluster(few_sure + many)
    assert [item.key for item in found] == [("stack", "objects", "mass"), ("stack", "position", "x")]
    assert abs(found[0].weight - 1.2) < 1e-9


def test_representative_is_the_most_confident_member():
    members = [diagnosis("stack", "position", confidence=c, text=str(c)) for c in (0.3, 0.8, 0.5)]
    assert cluster(members)[0].representative.confidence == 0.8


def test_diagnoses_without_cause_form_no_cluster():
    assert cause_key(diagnosis("stack", None)) is None
    assert cluster([diagnosis("stack", None)]) == []


def test_selection_is_capped_per_family_and_skips_covered_causes():
    found = [diagnosis("stack", "position", p) for p in ("x", "y", "yaw")] + [diagnosis("push_insert", "position")]
    chosen = select(found, per_family=2, covered={("stack", "position", "x")})
    keys = {item.key for item in chosen}
    assert keys == {("stack", "position", "y"), ("stack", "position", "yaw"), ("push_insert", "position", "x")}
