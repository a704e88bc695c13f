"""`environments.patches`, for programs that run in this folder's parent. Nothing needs a patch."""

from hermes.compat.environments import apply_patches

__all__ = ["apply_patches"]
