echo '{"events": [{"tStartMs": 0, "segs": [{"utf8": "Hello"}, {"utf8": " there"}]}, {"tStartMs": 61000, "segs": [{"utf8": "the second part"}]}]}' > v.en.json3
printf 'WEBVTT\n\n00:00:00.000 --> 00:00:02.000\nfirst line\n\n00:00:02.000 --> 00:00:04.000\nfirst line\nsecond line\n' > v.en.vtt
echo '{"language": "en", "subtitles": {}, "automatic_captions": {"en": [{}]}}' > video.json
