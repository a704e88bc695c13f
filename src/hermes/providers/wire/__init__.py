"""One transport, three dialects.

`model` sends a request, keeps time and closes; `chat`, `anthropic` and `responses` each write a
request (`request`, `form`) and read a reply (`reply`). Nothing in here retries: see
`providers.policy`.
"""
