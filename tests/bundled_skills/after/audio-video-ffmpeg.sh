test "$(ffprobe -v error -show_entries stream=sample_rate,channels -of csv=p=0 speech.wav)" = 16000,1
ffprobe -v error -show_entries format=duration -of csv=p=0 joined.mp4 | grep -qE '^(2\.9|3\.)'
test -s still.jpg
test "$(ffprobe -v error -show_entries stream=sample_rate -of csv=p=0 loud.wav)" = 48000
# The recipes of the table, as they stand there.
recipe() { sed -nE "s/^\| $1 \| \`([^\`]*)\`.*/\1/p" "$HERMES_SKILL_DIR/SKILL.md"; }
ffmpeg -v error -nostdin -i clip.mkv -vn in.wav
eval "ffmpeg -v error -nostdin -n $(recipe Loudness)"
test "$(ffprobe -v error -show_entries stream=sample_rate -of csv=p=0 out.wav)" = 48000
ffmpeg -v error -nostdin -i clip.mkv -t 1 -vf format=yuv420p10le -color_primaries bt2020 -color_trc smpte2084 \
    -colorspace bt2020nc -c:v libx265 -x265-params log-level=none:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc -c:a aac hdr.mov
test "$(ffprobe -v error -select_streams v -show_entries stream=color_transfer -of csv=p=0 hdr.mov)" = smpte2084
eval "ffmpeg -v error -nostdin -n $(recipe 'HDR to SDR')"
test "$(ffprobe -v error -select_streams v -show_entries stream=color_transfer,pix_fmt -of csv=p=0 out.mp4)" = yuv420p,bt709
