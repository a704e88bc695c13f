"""An environment: count words in files. Run: python word_count.py BASE_URL MODEL OUTPUT"""

import asyncio
import sys
from pathlib import Path

from hermes import envs


class WordCount(envs.Task, frozen=True):
    async def setup(self, ctx):
        await ctx.write_file("text.txt", self.data["text"])

    @envs.reward
    async def is_correct(self, trace, ctx):
        count = await ctx.terminal("cat count.txt")
        return count["output"].strip() == str(len(self.data["text"].split()))

    @envs.reward(weight=0.1)
    async def keeps_the_text(self, trace, ctx):
        return (await ctx.read_file("text.txt"))["content"] == self.data["text"]

    @envs.metric
    def replies(self, trace, ctx):
        return sum(node.sampled for node in trace.nodes)


PROMPT = "Count the words in text.txt and write the number to count.txt."
TEXTS = {"one": "hello", "poem": "roses are red\nviolets are blue"}
TASKS = [WordCount(name=name, prompt=PROMPT, data={"text": text}) for name, text in TEXTS.items()]


async def main(base_url, model, output):
    endpoint = envs.ModelEndpoint(base_url=base_url, model=model, sampling={"temperature": 1.0})
    async with envs.RolloutRunner(envs.RolloutOptions(toolsets=("terminal",))) as runner:
        traces = await asyncio.gather(*(runner.run(task, endpoint) for task in TASKS))
    envs.write_traces(Path(output), traces)
    for trace in traces:
        print(trace.task_key, trace.failure or trace.reward, trace.metrics)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
