"""The bundled messaging platforms, one folder each."""
