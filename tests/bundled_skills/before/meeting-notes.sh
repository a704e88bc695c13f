cat > meeting.vtt <<'VTT'
WEBVTT

1
00:00:01.000 --> 00:00:04.000
<v Ann B.>Um, we ship on Friday.</v>

2
00:00:04.000 --> 00:00:06.000
<v Ann B.>Bob writes the notes.</v>

3
00:00:07.000 --> 00:00:09.000
<v Bob>Fine, by Thursday.</v>
VTT
