"""The least that anyone would write: one asyncio loop, a semaphore, aiohttp, a line of JSON for
each turn. Parley's yardstick.

Reads the user texts as JSON lists, a line each, from --dialogues. No retries, no resume, no checks,
one process.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any, TextIO


async def _dialogue(
    session: Any, url: str, texts: list[str], gate: asyncio.Semaphore, log: TextIO
) -> None:
    async with gate:
        messages: list[dict[str, str]] = []
        for text in texts:
            messages.append({"role": "user", "content": text})
            async with session.post(url, json={"model": "mock", "messages": messages}) as response:
                response.raise_for_status()
                answer = (await response.json())["choices"][0]["message"]["content"]
            messages.append({"role": "assistant", "content": answer})
            log.write(json.dumps({"user": text, "assistant": answer}) + "\n")
            log.flush()


async def _main(base_url: str, dialogues: Path, in_flight: int, out: Path) -> None:
    import aiohttp

    gate = asyncio.Semaphore(in_flight)
    started, cpu = time.monotonic(), time.process_time()
    with dialogues.open() as lines, out.open("w") as log:
        work = [json.loads(line) for line in lines]
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(600)
        ) as session:
            await asyncio.gather(
                *(
                    _dialogue(session, f"{base_url}/chat/completions", texts, gate, log)
                    for texts in work
                )
            )
    print(json.dumps({"wall_s": time.monotonic() - started, "cpu_s": time.process_time() - cpu}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--dialogues", type=Path, required=True)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asyncio.run(_main(asked.base_url, asked.dialogues, asked.in_flight, asked.out))
