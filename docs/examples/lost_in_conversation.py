"""Lost in Conversation: does a model solve a task that is revealed in parts as well as a whole one?

After "LLMs Get Lost In Multi-Turn Conversation" (Laban et al., 2025). An instruction is split into shards. Five
settings present them in five ways, word for word; in the paper a simulated user rephrases them, and every attempt
is scored. Run one setting, then print average, aptitude and unreliability:

    parley run docs/examples/lost_in_conversation.py:sharded --model SPEC --samples 10 --temperature 1
    parley sql "SELECT * FROM lost_in_conversation"
"""

import re

from tasks.benchmarks.one_file import Item, benchmark
from tasks.metrics.registry import metric

SETTINGS = {
    "full": "the whole instruction in one message",
    "concat": "all shards in one message, as a list",
    "sharded": "one shard in each message",
    "recap": "one shard in each message, and a last message that repeats all shards",
    "snowball": "one new shard in each message, after all earlier shards",
}
RECAP = "To sum up, this is all that I want:\n"


@metric("final_number", title="final number")
def final_number(answer, reference):
    """Return 1 if the last number of the answer equals the reference, else 0.

    Returns:
        1 or 0.

    Source: GSM8K's scoring, as the paper uses it for maths (section 4.1).
    """
    numbers = re.findall(r"-?\d[\d,]*\.?\d*", answer)
    return float(bool(numbers) and float(numbers[-1].replace(",", "")) == float(reference))


@benchmark(
    "lost_in_conversation",
    title="Lost in Conversation",
    paper="LLMs Get Lost In Multi-Turn Conversation",
    settings=SETTINGS,
    metric=final_number,
    has_tests=True,
    marts=("lost_in_conversation.sql",),
)
def LOST_IN_CONVERSATION(row):
    shards = row["shards"]
    listed = ["\n".join(f"- {shard}" for shard in shards[:n]) for n in range(1, len(shards) + 1)]
    messages = {
        "full": [row["instruction"]],
        "concat": [listed[-1]],
        "sharded": shards,
        "recap": [*shards, RECAP + listed[-1]],
        "snowball": listed,
    }
    return Item(
        row["id"],
        messages,
        tests=row.get("tests", ()),
        reference=row["reference"],
        level=row["task"],
    )
