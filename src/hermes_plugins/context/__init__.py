"""Context engines. `context.engine` names the one in use."""
