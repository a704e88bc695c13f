test "$(ffprobe -v error -show_entries stream=sample_rate,channels -of csv=p=0 speech.wav)" = 16000,1
ffprobe -v error -show_entries format=duration -of csv=p=0 joined.mp4 | grep -qE '^(2\.9|3\.)'
test -s still.jpg
