"""A judged benchmark: `parley run docs/examples/poems.py --model SPEC --judge SPEC`.

The judge's prompt is made of what the user asked, the last answer, and the row's reference. It rates from 1 to 5.
"""

from tasks.benchmarks.one_file import Item, benchmark

PROMPT = """Rate how well the poem does what was asked. 5: all of it; 3: in part; 1: not at all.

Asked:
{asked}

A poem that would be rated 5:
{reference}

The poem to rate:
{answer}"""


def prompt(asked, answer, reference):
    return PROMPT.format(asked=asked, answer=answer, reference=reference)


@benchmark("poems", title="Poems that follow instructions", judge=prompt)
def POEMS(row):
    return Item(row["id"], [row["topic"], row["change"]], reference=row["poem"])
