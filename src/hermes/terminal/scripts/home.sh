printf %s "$HOME"
