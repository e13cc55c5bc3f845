"""Writes parallel text for a translation model: sentences of made-up words, and what they mean.

    python examples/mxnet/translation_text.py text

makes `text/{train,valid}.{src,trg}`. The target language has a word for each of the source's, and
the order is the other way round.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

SIZES = {"train": 2000, "valid": 50}
WORDS = 20
LENGTHS = (3, 9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    source_of = random.Random(7)
    for part, sentences in SIZES.items():
        with (
            open(folder / f"{part}.src", "w") as source,
            open(folder / f"{part}.trg", "w") as target,
        ):
            for _ in range(sentences):
                words = source_of.choices(range(WORDS), k=source_of.randint(*LENGTHS))
                print(*(f"word{word}" for word in words), file=source)
                print(*(f"mot{word}" for word in reversed(words)), file=target)


if __name__ == "__main__":
    main()
