"""The programs around a script. They are sent as text, so none of them imports Hermes."""
