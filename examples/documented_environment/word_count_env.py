"""An environment with the documented names: count words in a file.

hermes run word_count_env.py evaluate --openai.base_url URL --openai.model_name MODEL
"""

from atroposlib.envs.server_handling.server_manager import APIServerConfig

from environments.hermes_base_env import HermesAgentBaseEnv, HermesAgentEnvConfig

TEXTS = {"one": "hello", "poem": "roses are red\nviolets are blue", "two": "so long"}


class WordCountConfig(HermesAgentEnvConfig):
    bonus: float = 0.1  # for an agent that makes no mistake


class WordCountEnv(HermesAgentBaseEnv):
    name = "word-count"
    env_config_cls = WordCountConfig

    @classmethod
    def config_init(cls):
        config = WordCountConfig(enabled_toolsets=["terminal"], max_agent_turns=10, group_size=2)
        server = APIServerConfig(base_url="http://localhost:8080/v1", model_name="local")
        return config, [server]

    async def setup(self):
        self.items = [{"id": name, "text": text} for name, text in TEXTS.items()]
        self.eval_items, self.position = self.items, 0

    async def get_next_item(self):
        self.position += 1
        return self.items[(self.position - 1) % len(self.items)]

    def format_prompt(self, item):
        return f"Count the words of this text and write the number to count.txt:\n\n{item['text']}"

    async def compute_reward(self, item, result, ctx):
        count = ctx.terminal("cat count.txt")
        if count["output"].strip() != str(len(item["text"].split())):
            return 0.0
        return 1.0 if not result.tool_errors else 1.0 - self.config.bonus


if __name__ == "__main__":
    WordCountEnv.cli()
