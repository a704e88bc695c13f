"""The form a client wants its answer in is asked of the agent."""

from typing import Any

import pytest

from hermes.gateway.platforms.api_server.http import ONLY_JSON, form_wanted

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}


@pytest.mark.parametrize("given", [None, "json", {}, {"type": "text"}, {"type": 7}, []])
def test_plain_text_needs_no_word(given: Any) -> None:
    assert form_wanted(given) == ""


@pytest.mark.parametrize(
    "given",
    [
        {"type": "json_schema", "json_schema": {"name": "t", "schema": SCHEMA}},
        {"type": "json_schema", "name": "t", "schema": SCHEMA},
    ],
)
def test_a_schema_is_told_in_both_places_where_it_may_stand(given: Any) -> None:
    assert form_wanted(given).endswith('{"type":"object","properties":{"title":{"type":"string"}}}')


@pytest.mark.parametrize(
    "given",
    [{"type": "json_object"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": 7}],
)
def test_json_without_a_schema_is_json_all_the_same(given: Any) -> None:
    assert form_wanted(given) == ONLY_JSON
