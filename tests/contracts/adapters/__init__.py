"""What every adapter must pass: `suite` is what platforms use."""

import pytest

for _module in ("core_cases", "feature_cases", "media_cases", "trouble_cases", "driving"):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")
