"""Cases of files, in and out."""

from functools import partial
from pathlib import Path

from hermes.sdk.platforms import Media, OutgoingMessage, SendRefused
from hermes.sdk.testing.platforms.driving import Inbox, connected, failure, talking, target_of
from hermes.sdk.testing.platforms.harness import File, Harness

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15"
    b"\xc4\x89\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82"
)
SAMPLES = {
    "image": File("image", "picture.png", PNG, "image/png"),
    "voice": File("voice", "voice.ogg", b"OggS" + bytes(200), "audio/ogg"),
    "audio": File("audio", "song.mp3", b"ID3\x03" + bytes(200), "audio/mpeg"),
    "video": File("video", "clip.mp4", b"\x00\x00\x00\x18ftypmp42" + bytes(200), "video/mp4"),
    "document": File("document", "report.pdf", b"%PDF-1.4 " + bytes(200), "application/pdf"),
}


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


def _has_more_than(count: int, inbox: Inbox) -> bool:
    return len(inbox.kept) > count


class MediaInContract:
    async def test_each_kind_of_file_comes_as_what_it_is(self, harness: Harness) -> None:
        async with connected(harness) as (adapter, inbox):
            for kind in harness.manifest.capabilities.media_in:
                sample, before = SAMPLES[kind], len(inbox.kept)
                await harness.says(f"my {kind}", files=(sample,))
                await inbox.until(partial(_has_more_than, before), kind)
                (media,) = inbox.kept[before].media
                assert media.kind == kind
                assert media.size in {0, len(sample.data)}
                fetched = await adapter.fetch(media, 1_000_000)
                assert Path(fetched.path).read_bytes() == sample.data
                assert fetched.size == len(sample.data)

    async def test_the_text_of_a_file_come_with_it(self, harness: Harness) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_in[0]]
        async with connected(harness) as (_, inbox):
            await harness.says("look at this", files=(sample,))
            event = await inbox.take("look at this")
            assert len(event.media) == 1

    async def test_a_fetched_file_is_in_the_cache(self, harness: Harness) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_in[0]]
        async with connected(harness) as (adapter, inbox):
            await harness.says("keep it", files=(sample,))
            event = await inbox.take("keep it")
            path = Path((await adapter.fetch(event.media[0], 1_000_000)).path)
            assert path.resolve().is_relative_to(harness.cache.resolve())
            assert not path.stat().st_mode & 0o077

    async def test_a_file_that_is_too_large_leaves_nothing_behind(self, harness: Harness) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_in[0]]
        async with connected(harness) as (adapter, inbox):
            await harness.says("a large one", files=(sample,))
            event = await inbox.take("a large one")
            error = await failure(adapter.fetch(event.media[0], len(sample.data) - 1))
            assert "large" in str(error)
            assert files_below(harness.cache) == []

    async def test_a_hostile_name_stays_in_the_cache(self, harness: Harness) -> None:
        kind = harness.manifest.capabilities.media_in[-1]
        sample = SAMPLES[kind]
        async with connected(harness) as (adapter, inbox):
            for number, name in enumerate(("../../../evil.sh", "/etc/passwd", "..", "a\x01b.txt")):
                file = File(sample.kind, name, sample.data, sample.mime)
                await harness.says(f"innocent {number}", files=(file,))
                event = await inbox.take(f"innocent {number}")
                path = Path((await adapter.fetch(event.media[0], 1_000_000)).path)
                assert path.resolve().is_relative_to(harness.cache.resolve())
                assert path.read_bytes() == sample.data
                assert path.name.isprintable()

    async def test_files_of_one_name_do_not_overwrite_each_other(self, harness: Harness) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_in[-1]]
        async with connected(harness) as (adapter, inbox):
            paths = []
            for data in (sample.data + b"one", sample.data + b"two"):
                file = File(sample.kind, sample.name, data, sample.mime)
                before = len(inbox.kept)
                await harness.says("twice", files=(file,))
                await inbox.until(partial(_has_more_than, before), "the file")
                media = await adapter.fetch(inbox.kept[before].media[0], 1_000_000)
                paths.append((Path(media.path), data))
            for path, data in paths:
                assert path.read_bytes() == data


class MediaOutContract:
    async def test_each_kind_of_file_is_shown(self, harness: Harness, tmp_path: Path) -> None:
        async with talking(harness) as (adapter, _, event):
            for kind in harness.manifest.capabilities.media_out:
                sample = SAMPLES[kind]
                path = tmp_path / sample.name
                path.write_bytes(sample.data)
                media = Media(sample.kind, sample.name, sample.mime, path=str(path))
                out = OutgoingMessage(f"a {kind}", plain=f"a {kind}", media=(media,))
                assert await adapter.send(target_of(event.source), out, f"media-{kind}")
            shown = await harness.shown(event.source.chat_id)
            files = [name for message in shown for name in message.media]
            kinds = harness.manifest.capabilities.media_out
            assert files == [SAMPLES[kind].name for kind in kinds]

    async def test_the_text_of_a_file_are_shown(self, harness: Harness, tmp_path: Path) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_out[0]]
        path = tmp_path / sample.name
        path.write_bytes(sample.data)
        async with talking(harness) as (adapter, _, event):
            media = Media(sample.kind, sample.name, sample.mime, path=str(path))
            out = OutgoingMessage("here it is", plain="here it is", media=(media,))
            await adapter.send(target_of(event.source), out, "words-1")
            texts = [message.text.strip() for message in await harness.shown(event.source.chat_id)]
            assert "here it is" in texts

    async def test_a_file_that_is_not_there_is_refused(
        self, harness: Harness, tmp_path: Path
    ) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_out[0]]
        async with talking(harness) as (adapter, _, event):
            media = Media(sample.kind, sample.name, sample.mime, path=str(tmp_path / "missing"))
            sending = adapter.send(
                target_of(event.source), OutgoingMessage(media=(media,)), "missing-1"
            )
            assert isinstance(await failure(sending), SendRefused)
            assert await harness.shown(event.source.chat_id) == []

    async def test_a_file_beyond_the_limit_is_refused(
        self, harness: Harness, tmp_path: Path
    ) -> None:
        sample = SAMPLES[harness.manifest.capabilities.media_out[0]]
        path = tmp_path / sample.name
        with path.open("wb") as file:
            file.truncate(harness.manifest.capabilities.max_upload_bytes + 1)
        async with talking(harness) as (adapter, _, event):
            media = Media(sample.kind, sample.name, sample.mime, path=str(path))
            sending = adapter.send(
                target_of(event.source), OutgoingMessage(media=(media,)), "huge-1"
            )
            assert isinstance(await failure(sending), SendRefused)
            assert await harness.shown(event.source.chat_id) == []
