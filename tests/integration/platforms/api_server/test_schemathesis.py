"""The OpenAPI document says what the server does: generated requests find no crash and no answer
that is not written there."""

import asyncio

import hypothesis
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.errors import SchemathesisError
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    response_schema_conformance,
    status_code_conformance,
)

from tests.integration.platforms.api_server.conftest import KEY
from tests.integration.platforms.api_server.test_runs_and_jobs import Jobs

EXAMPLES = 5  #: For each operation.
CHECKS = (
    not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance, ignored_auth,
)  # fmt: skip


async def test_generated_requests_find_nothing_undocumented(serve):
    async with serve(scheduler=Jobs(), metrics=lambda: b"up 1\n") as server:
        document = (await server.http.get("/openapi.json")).json()
        count = await asyncio.to_thread(attacked, document, server.url)
    assert count > EXAMPLES * 10


def attacked(document: dict[str, object], url: str) -> int:
    """How many requests were made."""
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=url)
    made: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        assert not isinstance(operation, SchemathesisError)

        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy())
        def attack(case: schemathesis.Case) -> None:
            made.append(case.path)
            headers = {"Authorization": f"Bearer {KEY}"}
            case.call_and_validate(headers=headers, checks=list(CHECKS), timeout=100)

        attack()
    return len(made)
