# needs: convert
convert -size 400x300 gradient:red-blue photo.png
