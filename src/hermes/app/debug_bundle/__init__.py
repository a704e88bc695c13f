"""What a bug report needs, without anything that is nobody else's business."""
