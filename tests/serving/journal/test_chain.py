"""The chain of hashes: any record that is changed, deleted, added or moved breaks it at its place."""

from __future__ import annotations

import pytest

from pacesetter.errors import RunError
from pacesetter.serving.journal.chain import GENESIS, canonical_json, link, verify


def chain(count: int) -> list[tuple[int, str, str, str]]:
    records, previous = [], GENESIS
    for sequence in range(count):
        content = canonical_json({"b": sequence, "a": 1})
        previous = link(previous, sequence, "order", content)
        records.append((sequence, "order", content, previous))
    return records


def test_an_unbroken_chain_is_counted():
    assert verify(chain(5)) == 5
    assert verify([]) == 0


def test_canonical_text_does_not_depend_on_the_order_of_keys():
    assert canonical_json({"b": 1, "a": 2}) == canonical_json({"a": 2, "b": 1}) == '{"a":2,"b":1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (lambda records: records[2:], 0),
        (lambda records: [*records[:2], *records[3:]], 2),
        (lambda records: [*records[:3], (3, "order", "{}", records[3][3]), *records[4:]], 3),
        (lambda records: [records[0], records[2], records[1], *records[3:]], 1),
        (lambda records: [*records[:1], (1, "fill", *records[1][2:]), *records[2:]], 1),
    ],
)
def test_damage_is_found_at_its_record(damage, place):
    with pytest.raises(RunError, match=f"broken at record {place}:"):
        verify(damage(chain(5)))
