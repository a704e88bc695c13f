"""The state of the gateway for people and for Prometheus."""

from hermes.gateway.status import serve_metrics


async def test_a_metrics_port_without_its_package_is_reported():
    async with serve_metrics(9090, None) as trouble:
        assert "hermes setup metrics" in trouble
    async with serve_metrics(0, None) as trouble:
        assert trouble == ""
