"""Exporters of telemetry. `telemetry.enabled` turns `otlp` on."""
