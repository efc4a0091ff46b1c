"""The capstone's data: handwritten digits, dealt anew onto scanned sheets, with the answers held back."""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

ROWS = 10  # of digits on a sheet, and as many columns
PER_SHEET = ROWS * ROWS


def deal(folder, seed, train=3, test=3, renamed=False):
    """Write `train` and `test` sheets of digits drawn at random into two folders; the true classes of the test digits.

    folder: gets train/ and test/ with sheets as PNG, and labels.txt with a line of 100 labels for each train sheet.
    renamed: give the classes other names, drawn by the same seed: what was learnt from another deal is wrong then.
    Returns an array with one class for each test digit, sheet by sheet, row by row.
    """
    drawn = np.random.default_rng(seed)
    scans = load_digits()
    images = (scans.images * 15).astype(np.uint8)  # 0 to 16 inks become 0 to 240 grey levels
    chosen = drawn.permutation(len(images))[: PER_SHEET * (train + test)].reshape(-1, PER_SHEET)
    names = drawn.permutation(10) if renamed else np.arange(10)
    folder = Path(folder)
    for part, sheets in (("train", chosen[:train]), ("test", chosen[train:])):
        (folder / part).mkdir(parents=True)
        for number, digits in enumerate(sheets):
            sheet = images[digits].reshape(ROWS, ROWS, 8, 8).swapaxes(1, 2).reshape(8 * ROWS, 8 * ROWS)
            Image.fromarray(sheet).save(folder / part / f"sheet-{number:02}.png")
    labels = names[scans.target[chosen]]
    lines = ["".join(map(str, line)) + "\n" for line in labels[:train]]
    (folder / "labels.txt").write_text("".join(lines), encoding="ascii")
    return labels[train:].ravel()
