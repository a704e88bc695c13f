"""A taskset of verifiers: copy a word from a file to another (`vf-eval copy_word_v1`)."""

import verifiers.v1 as vf

WORDS = ("alder", "birch", "cedar")


class CopyWordData(vf.TaskData):
    word: str


class CopyWordTask(vf.Task[CopyWordData]):
    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        await runtime.write("note.txt", self.data.word.encode())

    @vf.reward
    async def is_copied(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        result = await runtime.run(["cat", "made.txt"], {})
        return float(result.stdout.strip() == self.data.word)


class CopyWordConfig(vf.TasksetConfig):
    pass


class CopyWordTaskset(vf.Taskset[CopyWordTask, CopyWordConfig]):
    def load(self) -> list[CopyWordTask]:
        return [
            CopyWordTask(
                CopyWordData(
                    prompt=f"Task {word}: copy the word of note.txt to made.txt.",
                    system_prompt="Work in the current folder.",
                    word=word,
                ),
                self.config.task,
            )
            for word in WORDS
        ]


__all__ = ["CopyWordTaskset"]
