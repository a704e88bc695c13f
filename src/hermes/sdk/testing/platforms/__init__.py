"""The cases that every adapter must pass: `suite` has the classes, `harness` what a platform has to
provide. They need pytest and anyio."""

import pytest

for _module in ("core_cases", "harness", "suite"):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")
