"""A task of inspect_ai: the answer is in a file that only the agent can read."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate

WORDS = ("alder", "birch", "cedar", "dogwood", "elm")


@task
def read_word() -> Task:
    dataset = [
        Sample(id=word, input=f"Which word is in the file {word}.txt?", target=word)
        for word in WORDS
    ]
    return Task(dataset=dataset, solver=generate(), scorer=match())
