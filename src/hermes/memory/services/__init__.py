"""Memory services: each module is a thin adapter over the public interface of one service.

What they share: `common` (a provider over a service), `about` (facts and tools), `http`
(requests), `circuit` (rests after failures), `options` (their files and keys), `scope` (whose
memory), `text` (what is sent and shown).
"""
