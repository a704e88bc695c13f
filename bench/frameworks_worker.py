"""The process that `bench.frameworks` measures: rollouts of one task, some at the same time.

python -m bench.frameworks_worker URL COUNT
"""

import asyncio
import sys

from hermes.envs import ModelEndpoint, RolloutContext, RolloutRunner, Task, Trace, reward

WORD = "alder"
AT_ONCE = 4


class CopyWord(Task, frozen=True):
    async def setup(self, ctx: RolloutContext) -> None:
        await ctx.write_file("note.txt", WORD)

    @reward
    async def is_copied(self, _trace: Trace, ctx: RolloutContext) -> float:
        return float((await ctx.terminal("cat made.txt"))["output"].strip() == WORD)


async def main(url: str, count: int) -> None:
    endpoint = ModelEndpoint(base_url=f"{url}/v1", model="lab-model")
    task = CopyWord(prompt="Copy the word of note.txt to made.txt.")
    limit = asyncio.Semaphore(AT_ONCE)
    async with RolloutRunner() as runner:

        async def one() -> Trace:
            async with limit:
                return await runner.run(task, endpoint)

        traces = await asyncio.gather(*(one() for _ in range(count)))
    if any(trace.reward != 1.0 for trace in traces):
        raise SystemExit(f"not solved: {[(trace.reward, trace.failure) for trace in traces]}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
