"""HTTP wires: one transport (`model`) and four dialects.

A dialect encodes requests and reads replies of one API: `chat_completions`, `anthropic`,
`responses` and `code_assist`. `codec` holds what they share. Nothing here retries; see
`hermes.providers.policy`. Encoding is deterministic byte for byte, because the prompt caches of
providers match on prefixes.
"""
