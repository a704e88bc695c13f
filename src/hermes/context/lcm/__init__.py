"""The context engine `lcm`: what is compacted stays in the log and can be looked up again.

In the context, notes stand for what was compacted. Each note is a node of a DAG with an id: a leaf
stands for messages of the log, an inner node for older notes. `lcm_grep`, `lcm_describe` and
`lcm_expand` lead from the notes back to the messages.
"""

from hermes.context.lcm.engine import LcmEngine, LcmOptions

__all__ = ["LcmEngine", "LcmOptions"]
