"""The state of the gateway for people and for Prometheus."""

import subprocess
import sys

from hermes.gateway.status import serve_metrics


def test_gateway_is_imported_without_the_package_of_the_metrics():
    code = "import sys; sys.modules['prometheus_client'] = None; import hermes.gateway.runner"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_a_metrics_port_without_its_package_is_reported():
    async with serve_metrics(9090, None) as trouble:
        assert "hermes setup metrics" in trouble
    async with serve_metrics(0, None) as trouble:
        assert trouble == ""
