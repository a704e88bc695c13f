"""Tools, resources and prompts of MCP servers."""
