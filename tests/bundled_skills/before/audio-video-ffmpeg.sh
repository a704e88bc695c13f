# needs: ffmpeg ffprobe
ffmpeg -v error -nostdin -f lavfi -i testsrc=size=160x120:rate=10:duration=4 -f lavfi -i sine=duration=4 -c:v mpeg4 -c:a pcm_s16le clip.mkv
