"""Extensions that are delivered with Hermes. They import `hermes.sdk` and nothing else of Hermes.

Each kind has a folder, and each extension a folder in it: `platforms/telegram`, `memory/mem0`,
`context/lcm`, `terminals/modal`. An extension is loaded when the settings name it.
"""
