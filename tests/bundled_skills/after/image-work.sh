test -s web/photo.webp
