grep -qF "[00:01:01](https://youtu.be/VIDEO_ID?t=61) the second part" transcript.md
