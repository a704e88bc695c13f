"""Memory providers over external services, one module per service.

`base` has the common provider classes, options and text handling; `http` the HTTP client and its
circuit breaker. `hermes.memory.discovery` names the provider classes.
"""
