"""Prints which share of all prompts' tokens a prefix cache without bounds could have answered.

Runs where the tokenizer is.

Usage: python possible.py MODEL_FOLDER TOKENS_A_BLOCK < [[message, ...], ...]   (a dialogue: user
and assistant in turn)

Each request is a dialogue up to a question. Prompts and answers of all earlier rounds were computed
before it, and the last token of a prompt is always computed.
"""

import json
import sys

from transformers import AutoTokenizer


def common(a: list[int], b: list[int]) -> int:
    """Length of the longest beginning that both have."""
    return next(
        (at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def main() -> None:
    """Read dialogues, print tokens and what of them could be found, as JSON."""
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    dialogues = json.load(sys.stdin)
    seen: list[list[int]] = []
    tokens = found = in_blocks = requests = 0
    block = int(sys.argv[2])
    for turn in range(max(len(dialogue) for dialogue in dialogues) // 2):
        computed = []
        for dialogue in dialogues:
            if len(dialogue) < 2 * turn + 2:
                continue
            prompt, whole = (
                tokenizer.apply_chat_template(
                    dialogue[:end],
                    tokenize=True,
                    return_dict=False,
                    add_generation_prompt=is_prompt,
                )
                for end, is_prompt in ((2 * turn + 1, True), (2 * turn + 2, False))
            )
            tokens, requests = tokens + len(prompt), requests + 1
            most = min(max((common(prompt, one) for one in seen), default=0), len(prompt) - 1)
            found, in_blocks = found + most, in_blocks + most // block * block
            computed.append(whole)
        seen += computed
    print(
        json.dumps({"requests": requests, "tokens": tokens, "found": found, "in_blocks": in_blocks})
    )


if __name__ == "__main__":
    main()
